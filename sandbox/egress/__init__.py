"""The only way out of a sandbox: a proxy of ours, to the places that the caller names. Standard library only.

``policy`` decides and is pure, ``head`` reads what a client asks for, ``proxy`` carries bytes. How a command's
connections come here is in ``sandbox.ways``.
"""
