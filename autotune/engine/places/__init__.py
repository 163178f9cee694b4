"""Where servers run: on this machine, in a container of it, on another machine."""
