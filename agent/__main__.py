"""Where the process of one run begins; started by a runner, never by a person. See ``child``."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

from sandbox import open_sandbox

if __name__ == "__main__":
    opening = ThreadPoolExecutor(1, thread_name_prefix="sandbox").submit(open_sandbox)  # it mostly waits for programs
    gc.disable()  # of what is imported nothing is ever left over, and looking through it takes a tenth of a start
    from agent.child import main

    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
    code = main(opening.result)
    gc.freeze()  # the same at the end: the process goes, and what it holds with it
    sys.exit(code)
