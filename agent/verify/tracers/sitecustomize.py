"""Runs at the start of the target's interpreters, never in our own: notes which lines of the wanted files are run.

``GRAFTSMITH_LINES`` holds ``{"report": folder, "root": folder, "paths": [...]}``. Into ``report`` go two files, whose
lines are JSON arrays ``[path, line, ...]``: ``code``, written once, names the lines that hold code; ``ran`` those that
ran, each as it is reached for the first time, so that nothing is lost when a process is killed.

Only the standard library, and nothing that Python 3.6 lacks. Whatever goes wrong here must not be seen by the tests.
"""

import json
import os
import sys


def _begin(wanted, report):
    """Watch the files of ``wanted`` (absolute path → path as it is told)."""
    _tell_code(wanted, report)
    out = os.open(os.path.join(report, "ran"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    here = os.getcwd()
    noters = {}

    def noter(name):
        """What is called with the lines of a file (its name in code objects) that run; None for the others."""
        if name not in noters:
            path = wanted.get(os.path.normpath(os.path.join(here, name)))
            noters[name] = path and _noter(path, out)
        return noters[name]

    monitoring = getattr(sys, "monitoring", None)
    if monitoring:
        _monitor(monitoring, noter)
    else:
        _trace(noter)


def _noter(path, out):
    seen = set()

    def note(line):
        if line not in seen:
            seen.add(line)
            try:
                os.write(out, (json.dumps([path, line]) + "\n").encode())
            except OSError:
                pass

    note.seen = seen
    return note


def _tell_code(wanted, report):
    """The lines that hold code, as this very interpreter compiles them; the first process tells it for all."""
    try:
        out = os.open(os.path.join(report, "code"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return
    from dis import findlinestarts

    for place, path in wanted.items():
        lines = set()
        try:
            with open(place, "rb") as file:
                todo = [compile(file.read(), place, "exec", dont_inherit=True)]
        except (OSError, SyntaxError, ValueError):
            continue
        while todo:
            code = todo.pop()
            lines.update(line for _, line in findlinestarts(code) if line)
            todo += [inner for inner in code.co_consts if hasattr(inner, "co_code")]
        os.write(out, (json.dumps([path, *sorted(lines)]) + "\n").encode())
    os.close(out)


def _monitor(monitoring, noter):
    """PEP 669: code of other files costs one call, lines that were seen cost nothing."""
    tool = next(number for number in (4, 3) if monitoring.get_tool(number) is None)  # the others have a meaning
    monitoring.use_tool_id(tool, "graftsmith")

    def start(code, offset):
        if noter(code.co_filename):
            monitoring.set_local_events(tool, code, monitoring.events.LINE)
        return monitoring.DISABLE

    def line(code, number):
        noter(code.co_filename)(number)
        return monitoring.DISABLE

    monitoring.register_callback(tool, monitoring.events.PY_START, start)
    monitoring.register_callback(tool, monitoring.events.LINE, line)
    monitoring.set_events(tool, monitoring.events.PY_START)


def _trace(noter):
    """One call for each call of a function, and one for each line of the wanted files: written to be short."""
    import threading

    inners = {}

    def inner(name):
        note = noter(name)
        if note is None:
            inners[name] = None
            return None
        seen = note.seen

        def inside(frame, event, argument):
            if frame.f_lineno not in seen:
                note(frame.f_lineno)
            return inside

        inners[name] = inside
        return inside

    def call(frame, event, argument):
        name = frame.f_code.co_filename
        inside = inners[name] if name in inners else inner(name)
        return inside and inside(frame, event, argument)

    threading.settrace(call)
    sys.settrace(call)


try:
    _asked = json.loads(os.environ["GRAFTSMITH_LINES"])
    _roots = {_asked["root"], os.path.realpath(_asked["root"])}  # a link can lead there
    _wanted = {os.path.normpath(os.path.join(root, path)): path for root in _roots for path in _asked["paths"]}
    _begin(_wanted, _asked["report"])
except Exception:  # noqa: S110 - the tests come first
    pass
