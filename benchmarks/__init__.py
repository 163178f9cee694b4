"""Measures the measuring client: against the truth, against other clients, and at its limits."""
