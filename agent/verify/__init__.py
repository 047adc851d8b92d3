"""Runs the target's own tests and decides, from what they report, what a change proves."""
