"""Started by its text inside a sandbox: opens a port on the sandbox's own loopback, hands it out, becomes the command.

A socket belongs for ever to the network in which it was made. So whoever holds this one outside accepts connections
from inside, and no process stays here to carry bytes. Runs with any Python 3: it may be older than ours.

Arguments: the file descriptor of a Unix socket, the port, the command.
"""

import array
import os
import signal
import socket
import sys


def main() -> None:
    way, port, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    with socket.socket(fileno=way) as outside, socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
        outside.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and what it becomes would go on doing so
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        sys.stderr.write("{}: {}\n".format(argv[0], error.strerror))  # noqa: UP032
        sys.exit(127)


main()
