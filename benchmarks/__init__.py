"""Measures the client (truth, cost, limits) and the samplers (``search``, ``proposal``)."""
