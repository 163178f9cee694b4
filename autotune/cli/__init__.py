"""The command line: one small file per command. Nothing imports this package.

Modules here import only click and the standard library at the top; everything else is imported
inside the command that needs it, so that ``--help`` answers at once.
"""
