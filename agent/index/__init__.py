"""Knows a repository: what is defined where, who uses it, and which words stand in which function.

Start at ``agent.index.index.Index``. This package file imports nothing, because the parse workers start through it.
"""
