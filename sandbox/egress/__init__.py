"""The only way out of a sandbox: a proxy of ours, to the places that the caller names. Standard library only.

``policy`` decides and is pure, ``head`` reads what a client asks for, ``proxy`` carries bytes, ``door`` is the small
program inside that opens the way to the proxy and then becomes the command.
"""
