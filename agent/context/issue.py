"""An issue, read as a person would: what it says, what it shows, and where it points.

Pure and linear in the length of the text, which is hostile. Nothing here knows a repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from agent.context.frames import Frame, frames_in

MAX_TEXT = 200_000
"""Characters that are read; nobody describes a bug in more."""

_BLOCK = "\0"
"""Stands for a fenced block while the lines around it are told apart."""

_LONGEST_LINE = 2000
"""So much of a line says what kind of line it is."""

_COMMENT = re.compile(r"<!--(?:.*?-->|.*\Z)", re.DOTALL)
_TAG = re.compile(
    r"</?(?:details|summary|br|p|b|i|em|strong|h\d|code|pre|div|span|img|a|sub|sup|kbd|ul|ol|li)\b[^>\n]*>", re.I
)
_FENCE = re.compile(r"^[ \t]*(`{3,}+|~{3,}+)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]{1,200})`")
_URL = re.compile(r"https?://[^\s)>\]\"']+")
_BLOB = re.compile(r"/(?:blob|blame|tree|raw)/[^/\s]+/([^\s#?)>\]\"']+)(?:[^\s#]*#L(\d+)(?:C\d+)?(?:-L(\d+))?)?")
_COMMIT = re.compile(r"(?<![0-9A-Za-z])(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,40}(?![0-9A-Za-z])")
_TICKET = re.compile(r"(?:#|\bgh-|\bissues?/|\bpull/|\bticket/|\b(?:ticket|bug|pr)[ #]{1,2})(\d{2,6})\b", re.IGNORECASE)
_HEADING = re.compile(r"^(?:#{1,6}(.+)|\*\*(.+)\*\*:?|([A-Z][\w /]{2,40}):)[ \t]*$")
_ENVIRONMENT = re.compile(
    r"\b(?:versions?|environment|system(?: info\w*)?|platform|setup|configuration|pip (?:list|freeze)|operating system"
    r"|installed packages|dependencies|checklist|show_versions)\b",
    re.IGNORECASE,
)
_VERSION_LINE = re.compile(
    r"^[\s*>-]*(?:[\w .()/-]{1,40}(?:==|:|=|\s)\s*)?v?\d+(?:\.\d+)+[\w.+-]*\s*$"
    r"|^[\s*>-]*(?:python|os|platform|machine|processor|byteorder|LC_ALL|LANG|LOCALE|libhdf5|libnetcdf)\b\s*[:=].{0,120}$",
    re.IGNORECASE,
)
_CODE_LINE = re.compile(
    r"""
    >>>|\.\.\.[ ]|In[ ]\[\d+\]:|Out\[\d+\]:|\$[ ]|[ ]{4}|[ ]{0,3}\t
    |[ ]*(?:
        import[ ][\w.]+(?:[ ]as[ ]\w+)?(?:,[ \w.]*)?$
        |from[ ][\w.]+[ ]import[ ]
        |[#]include[ ]
        |@[\w.]+(?:\(.*\))?\s*$
        |(?:async[ ])?(?:def|func|fn|function)[ ]\w+[ ]?[(<]
        |(?:class|struct|interface|enum|trait|impl)[ ]\w+(?:[(<].*)?[:{(,]\s*$
        |(?:(?:const|let|var|val|final|auto)[ ])?[\w.\[\]'"]+[ ]?[-+*/|&:]?=[ ]?[^=\s]
        |(?:(?:await|return|yield|assert|raise|throw|new|del)[ ])?[\w.]+\(.*\)[;:]?\s*$
        |[\])}]+[,;:)]*\s*$
        |.*[;{]\s*$
    )""",
    re.VERBOSE,
)
"""Code that stands in no fence, as trackers without Markdown have it. Matched against the start of a line."""

_TRACE_HEAD = re.compile(
    r"[ \t]*(?:Traceback \(most recent call last\)|During handling of the above exc|The above exception was the direct)"
)
_TRACE_LINE = re.compile(r"^[ \t]*(?:Traceback \(most recent|File \"|at \S+[ (]|-{10,}|#\d+ 0x|\.{3}$).*$", re.M)
_TRACE_PLACE = re.compile(r"[ \t]*(?:File \"[^\"\n]{1,400}\", line \d+|at [^\n]{1,400}:\d+\)?\s*$)")

_TITLE_TAG = re.compile(
    r"\s*(?:\[\s*(?:bugs?|enh|enhancement|docs?|feature|feature request|rfc|regression|question|issue|api|mnt|tst|wip"
    r"|mrg)\s*\]|(?:bug|enh|feature request|regression|rfc|doc)(?=\s*:))\s*:?\s*",
    re.IGNORECASE,
)
_MODIFIED = re.compile(r"^[ \t]*\(last modified by [^)\n]{1,80}\)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_TEMPLATE = frozenset(
    """
    a about above actual additional affected after and any anything are as attachments be been before behavior
    behaviour below bug can checklist clear code command complete component concise configuration context could
    current currently demonstrate describe description detail details did do does else environment error example
    expect expected explain extra feature files fix for general get goal had happen happened happening happens have
    help how i if in info information input instead is issue issues it like log logs looks mcve me minimal modified
    motivation mwe need notes observed of on operating optional or other outcome output please possible problem
    project proposal proposed provide question reason regression related report reproduce reproducible reproducing
    reproduction request result results running sample screenshot screenshots should snippet solution source stack
    step steps suggested summary system test tested that the this to trace traceback tracker type used using
    verifiable version versions want was we were what when which why with wrong you your
    """.split()  # noqa: SIM905 - as a list it would fill a screen
)
_LETTERS = re.compile(r"[^\W\d_]+")
_MARKS = re.compile(r"[`(){}\[\]=<>_/]|\w\.\w")
_LONGEST_LABEL = 120
_PATH = re.compile(r"(?<![\w/.+-])((?:[\w.+-]+/)*[\w+-][\w.+-]*\.[A-Za-z]\w{0,7})(?::(\d+)|#L(\d+))?(?![\w/])")
_DOTTED = re.compile(r"(?<![\w.])[^\W\d]\w*(?:(?:\.|::|#|->)[^\W\d]\w*)+")
_WORD = re.compile(r"[^\W\d]\w*")
_CODE_WORD = re.compile(r"_\w|\w_|[a-z]\d*[A-Z]|[A-Z][A-Z][a-z]")
_ERROR = re.compile(
    r"^[ \tE>]*((?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Warning|Failure|Interrupt|Exit)|panic|fatal error|error)\b"
    r":?[ \t]*(.*)$",
    re.M,
)
_QUOTED = re.compile(r"\"([^\"\n]{12,200})\"|'([^'\n]{12,200})'|“([^”\n]{12,200})”")


class Issue(NamedTuple):
    """What an issue consists of. All of it is untrusted text."""

    title: str
    prose: str
    """Running text, without code blocks, comments, version lists and links."""
    code: str
    """Code blocks, without tracebacks."""
    frames: tuple[Frame, ...]
    """Of tracebacks, outermost first."""
    links: tuple[Frame, ...]
    """Places that links to a forge's source view point at."""
    paths: tuple[str, ...]
    """File paths in the text."""
    said: tuple[str, ...]
    """Identifiers of title and prose: marked as code, or spelled like one; plain and dotted."""
    shown: tuple[str, ...]
    """Identifiers of the code blocks, tracebacks left out."""
    messages: tuple[str, ...]
    """Error messages and long quotations."""
    commits: frozenset[str]
    """Ids of commits, or the beginnings of such."""
    tickets: frozenset[str]
    """Numbers of other issues and pull requests."""

    @property
    def text(self) -> str:
        return f"{self.title}\n{self.prose}\n{self.code}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.said, *self.shown)))


def read_issue(text: str) -> Issue:
    """Take an issue apart. The first line that says something is its title."""
    text = _COMMENT.sub(" ", text[:MAX_TEXT].replace("\r\n", "\n").replace(_BLOCK, " "))
    links = tuple(
        Frame(match[1], int(match[2] or 0), "") for url in _URL.findall(text) for match in _BLOB.finditer(url)
    )
    commits, tickets = frozenset(_COMMIT.findall(text)), tickets_in(text)
    text = _MODIFIED.sub("", _TAG.sub(" ", _URL.sub(" ", text)))
    title, _, body = text.strip().partition("\n")
    title = title.strip("# \t")
    title = title[_tag_end(title) :]
    prose, code = _split(body)
    frames = frames_in(text)
    shown = _TRACE_LINE.sub("", code)
    traced = {frame.path for frame in frames}
    return Issue(
        title=title,
        prose=prose,
        code=shown,
        frames=frames,
        links=links,
        paths=tuple(
            p for p in dict.fromkeys(m[1] for m in _PATH.finditer(f"{title}\n{prose}\n{shown}")) if p not in traced
        ),
        said=_said(f"{title}\n{prose}"),
        shown=_long(_DOTTED.findall(shown) + _WORD.findall(shown)),
        messages=_messages(text),
        commits=commits,
        tickets=tickets,
    )


def tickets_in(text: str) -> frozenset[str]:
    """Numbers of issues and pull requests that a text mentions."""
    return frozenset(_TICKET.findall(text))


def _tag_end(title: str) -> int:
    """Where a title begins behind ``[Bug]:`` and the like; 0 where nothing else would be left."""
    tag = _TITLE_TAG.match(title)
    return tag.end() if tag and tag.end() < len(title) else 0


def _split(text: str) -> tuple[str, str]:
    """Prose and code.

    The frames of tracebacks, the labels of a template, lists of versions and what stands under a heading about versions
    are neither.
    """
    prose: list[str] = []
    code: list[str] = []
    blocks = iter([match[2] for match in _FENCE.finditer(text)])
    apart = traced = False
    for line in _FENCE.sub(_BLOCK, text).split("\n"):
        start = line[:_LONGEST_LINE]
        heading = _HEADING.match(start)
        if heading:
            apart = bool(_ENVIRONMENT.search(heading[1] or heading[2] or heading[3] or ""))
        below, traced = traced, bool(_TRACE_PLACE.match(start))
        if start == _BLOCK:
            rows = next(blocks).split("\n")
            code += [] if apart else [row for row in rows if "=" in row or not _is_version(row)]
        elif apart or traced or _is_version(start) or _TRACE_HEAD.match(start) or is_label(start):
            continue
        else:
            (code if _CODE_LINE.match(start) or (below and start[:1].isspace()) else prose).append(line)
    return "\n".join(prose), "\n".join(code)


def _is_version(line: str) -> bool:
    return bool(_VERSION_LINE.match(line[:300]))


def is_label(line: str) -> bool:
    """Whether a line is one of an issue template, as ``### Steps to reproduce``: all of its words are of that kind."""
    if len(line) > _LONGEST_LABEL or _MARKS.search(line.replace("(optional)", "")):
        return False
    found = _LETTERS.findall(line)
    return 0 < len(found) <= 10 and all(word.lower() in _TEMPLATE for word in found)


def _said(text: str) -> tuple[str, ...]:
    names = [name for match in _INLINE.finditer(text) for name in _DOTTED.findall(match[1]) + _WORD.findall(match[1])]
    names += _DOTTED.findall(text)
    names += [word for word in _WORD.findall(text) if _CODE_WORD.search(word)]
    return _long(names)


def _long(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if len(name) > 2)


def _messages(text: str) -> tuple[str, ...]:
    found = [match[2].strip() for match in _ERROR.finditer(text) if match[2].strip()]
    found += ["".join(filter(None, match.groups())) for match in _QUOTED.finditer(text)]
    return tuple(dict.fromkeys(message[:300] for message in found if len(message) >= 8))[:40]
