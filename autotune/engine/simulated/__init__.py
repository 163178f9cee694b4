"""A simulated SGLang server: a performance model and an HTTP server that speaks as SGLang does.

Its numbers are simulated and are named so wherever they appear. Nothing here needs a GPU.
"""
