"""Engines: what starts, watches and stops the server under test."""
