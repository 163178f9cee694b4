"""The loop: which trial next, run it, keep what it says, know when to stop."""
