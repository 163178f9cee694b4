"""Measures the measuring client (truth, cost, limits) and the samplers (``search``)."""
