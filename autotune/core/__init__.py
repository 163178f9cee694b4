"""Pure values and mathematics: no I/O, no clock, no process."""
