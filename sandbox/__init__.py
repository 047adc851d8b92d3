"""Runs commands: trusted ones under supervision, untrusted ones isolated. Standard library only."""
