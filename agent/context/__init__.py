"""Puts the right code in front of the model: reads the issue, ranks files and functions, renders to a token budget."""
