"""Where the process of one run begins; started by a runner, never by a person. See ``start`` and ``child``."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor

from agent.start import begin, spare_the_collector
from sandbox import open_sandbox

if __name__ == "__main__":
    beside = ThreadPoolExecutor(1, thread_name_prefix="sandbox")  # to open one is mostly to wait for programs
    sandbox = beside.submit(open_sandbox).result if begin(sys.argv) else open_sandbox
    gc.disable()  # of what is imported nothing is ever left over, and looking through it takes a tenth of a start
    from agent.child import main

    spare_the_collector()
    gc.enable()
    code = main(sandbox)
    gc.freeze()  # the same at the end: the process goes, and what it holds with it
    sys.exit(code)
