"""Varied text for the built-in workloads, all written here: prose, source, program output, JSON.

Repetitive prompts inflate the accept length of a draft model, so nothing here is a template with
one hole: each piece draws its structure, its names and its numbers.
"""
