"""Where the program begins. An interrupt while it is being loaded gives the shell back, without a traceback."""

from __future__ import annotations

import sys

INTERRUPTED = 130
"""As a shell tells the end by SIGINT: 128 + 2."""


def main() -> None:
    """Run the command line and exit."""
    try:
        from app.cli import main as run  # all that takes time is loaded in here

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
