"""Other people's text inside our Markdown: shown as it is, unable to do anything.

Pure. Three ways in, from strictest to freest:

- ``plain``: one line without any markup, for titles and commit messages.
- ``code`` and ``fence``: the text itself, literally.
- ``inline`` and ``prose``: words, lists and code keep their shape; nothing else is live.

What "live" means on GitHub and is taken away: mentions, issue references (closing words act through them), links and
images outside ``links``, HTML, headings that pose as ours, tables, formulas, control and direction signs.
Sources: the GitHub Flavored Markdown specification (https://github.github.com/gfm/) and GitHub's pages on mentions,
references, closing words and skipping workflow runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")

BODY_LIMIT = 65_000
"""UTF-8 bytes. GitHub takes 65,536 characters; bytes are never fewer than characters, and some room is left."""
LISTED = 20
_LONGEST_LINE = 4_000
"""Bytes of one line of words, or of a code span."""

_INVISIBLE_BREAK = "\u200b"  # zero width space: seen by GitHub's matchers, not by the reader

# ── cleaning ─────────────────────────────────────────────────────────────────────────────────────────────────────

_TERMINAL = re.compile(
    r"(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: titles, links
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|\x1b[PX^_][^\x1b\x9c]*(?:\x1b\\|\x9c)?"  # other strings
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\ufff9-\ufffb]")
_BIDI = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_HIDDEN = re.compile(
    r"[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_JOINERS = re.compile(r"[\u200c\u200d\ufe00-\ufe0f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")


def clean(text: str, *, most: int, show_direction: bool = False) -> str:
    """``text`` without terminal sequences, control, hidden and direction signs; line ends become ``\\n``.

    Args:
        most: characters that are wanted of it. Four times as many are read at most, whatever becomes of them: nothing
            that somebody sends us takes longer than what can be shown of it.
        show_direction: write direction signs as ``‹U+202E›`` instead of dropping them (for code, where they matter).
    """
    text = text[: 4 * most + 4]
    text = _TERMINAL.sub("", text.replace("\r\n", "\n"))
    text = re.sub(r"[\r\x85\u2028\u2029]", "\n", text)
    text = _HIDDEN.sub("", _CONTROL.sub("", text))
    text = _BIDI.sub(lambda m: f"‹U+{ord(m[0]):04X}›" if show_direction else "", text)
    return _SURROGATE.sub("\ufffd", text)


# ── cutting ──────────────────────────────────────────────────────────────────────────────────────────────────────


def size(text: str) -> int:
    """Bytes of ``text`` as GitHub will receive it."""
    return len(text.encode("utf-8", "surrogatepass"))


def fits(text: str, limit: int) -> bool:
    """Whether ``text`` has at most ``limit`` bytes; a long one is not read for that."""
    return len(text) <= limit and size(text) <= limit


def head(text: str, limit: int) -> str:
    """The beginning of ``text`` in at most ``limit`` bytes, cut between code points, with a mark when cut."""
    if fits(text, limit):
        return text
    room = max(0, limit - size("…"))
    return text[:room].encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore").rstrip() + "…"


def tail(text: str, limit: int) -> str:
    """The end of ``text`` in at most ``limit`` bytes, from the start of a line where one is near."""
    if fits(text, limit):
        return text
    raw = text[-max(1, limit) :].encode("utf-8", "surrogatepass")
    kept = raw[len(raw) - max(0, limit) :].decode("utf-8", "ignore")
    _, found, rest = kept.partition("\n")
    return rest if found and len(rest) > len(kept) // 2 else kept


# ── literal text ─────────────────────────────────────────────────────────────────────────────────────────────────


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)


def fence(text: str, info: str = "") -> str:
    """``text`` as a fenced block that nothing inside it can close."""
    text = clean(text, most=BODY_LIMIT, show_direction=True).strip("\n")
    marks = "`" * max(3, _longest_run(text) + 1)
    return f"{marks}{info}\n{text}\n{marks}"


def code(text: str) -> str:
    """``text`` as a code span on one line."""
    text = _one_line(text)
    if not text:
        return "*(empty)*"
    marks = "`" * (_longest_run(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{pad}{text}{pad}{marks}"


def _one_line(text: str) -> str:
    return head(" ".join(clean(text, most=_LONGEST_LINE, show_direction=True).split()), _LONGEST_LINE)


def cell(text: str) -> str:
    """``text`` as a code span that also holds inside a table cell."""
    if "\\|" not in text:
        return code(text).replace("|", "\\|")
    # GFM readers disagree on what backslashes before a pipe mean; entities mean the same to all of them.
    text = _one_line(text)
    spelled = re.sub(r"[^A-Za-z0-9 ]", lambda m: f"&#{ord(m[0])};", text)
    return f"<code>{spelled}</code>"


def details(summary: str, body: str) -> str:
    """A folded block. Both parts must already be safe Markdown; ``summary`` is one line."""
    return f"<details>\n<summary>{summary}</summary>\n\n{body}\n\n</details>"


# ── one plain line ───────────────────────────────────────────────────────────────────────────────────────────────

_SKIP_CI = re.compile(
    r"\[(?=\s*(?:skip[\s_-]*\w+|\w+[\s_-]+skip|no[\s_-]*ci)\s*\])|(?<=skip-checks)(?=\s*:)|(?<=\*)(?=\*\*\s*NO_CI)",
    re.I,
)
_LIVE_AT = re.compile(r"(?<![A-Za-z0-9])@(?=[A-Za-z0-9])")
_LIVE_NUMBER = re.compile(
    r"(?<=#)(?=\d)|(?<=GH-)(?=\d)|(?<=/issues/)(?=\d)|(?<=/pull/)(?=\d)|(?<=/discussions/)(?=\d)", re.I
)


def plain(text: str, limit: int) -> str:
    """``text`` on one line of at most ``limit`` characters, with no effect as a title or in a commit message.

    Mentions, references and words that switch off checks are broken by a zero width space: the reader sees no change.
    """
    text = " ".join(_JOINERS.sub("", clean(text, most=limit)).split())
    text = _SKIP_CI.sub(lambda m: m[0] + _INVISIBLE_BREAK, text)
    text = _LIVE_AT.sub("@" + _INVISIBLE_BREAK, text)
    text = _LIVE_NUMBER.sub(_INVISIBLE_BREAK, text)
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    word, _, _ = kept.rpartition(" ")
    return (word if len(word) > limit // 2 else kept).rstrip() + "…"


# ── words that keep their shape ──────────────────────────────────────────────────────────────────────────────────

_SPANS = re.compile(
    r"(?<!`)(?P<marks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=marks)(?!`)"
    r"|(?P<image>!?)\[(?P<label>[^\[\]\n]{0,300})\]\((?P<url>[^()\s<>]{1,2000})(?:\s+\"[^\"\n]{0,300}\")?\)"
)
_LIVE = re.compile(r"(?<![A-Za-z0-9])@[A-Za-z0-9]|#\d|\bGH-\d|://|\bwww\.|\b(?:mailto|xmpp|javascript|data):|\$", re.I)
_BEFORE, _AFTER = "([{\"'*_~", ".,;:!?)]}\"'*_~"
_SAFE_URL = re.compile(r"(?!.*GH-\d)[A-Za-z0-9._:/?+=%-]+(?:#[A-Za-z][A-Za-z0-9-]*)?")


def inline(text: str, links: Sequence[str] = ()) -> str:
    """One line of words. Code spans stay; links stay when they begin with one of ``links``; all else is literal.

    Args:
        links: prefixes that end in ``/``, for example ``https://github.com/acme/widget/blob/``.
    """
    text = head(" ".join(clean(text, most=_LONGEST_LINE).split()), _LONGEST_LINE)
    out = ""
    for part in _parts(text, links):
        # Two code spans side by side would be read as one.
        out += f" {part}" if out.endswith("`") and part.startswith("`") else part
    # It may come to stand at the start of a line or list item, where these signs would begin a block.
    out = re.sub(r"^(\d{1,9})([.)])(?=\s|$)", r"\1\\\2", out)
    return f"\\{out}" if re.match(r"[#>=+-]", out) else out


def _parts(text: str, links: Sequence[str]) -> Iterator[str]:
    at = 0
    for found in _SPANS.finditer(text):
        yield from _words(text[at : found.start()], links)
        yield code(found["code"]) if found["marks"] else _link(found, links)
        at = found.end()
    yield from _words(text[at:], links)


def _link(found: re.Match[str], links: Sequence[str]) -> str:
    label, url = found["label"].replace("`", ""), found["url"]
    if not found["image"] and _allowed(url, links) and not _LIVE.search(label):
        return f"[{_escape(label)}]({url})"
    shown = "".join(_words(label, ())) or "link"
    return f"{shown} ({code(url)})"


def _words(text: str, links: Sequence[str]) -> Iterator[str]:
    for piece in re.split(r"(\s+)", text):
        if not _LIVE.search(piece):
            yield _escape(piece)
            continue
        # The whole word becomes code: taking out a part could free what stood glued to it.
        begun = piece.lstrip(_BEFORE)
        core = begun.rstrip(_AFTER)
        yield _escape(piece[: len(piece) - len(begun)])
        yield core if _allowed(core, links) else code(core)
        yield _escape(begun[len(core) :])


def _allowed(url: str, links: Sequence[str]) -> bool:
    return bool(_SAFE_URL.fullmatch(url)) and "/../" not in url and any(url.startswith(prefix) for prefix in links)


def _escape(text: str) -> str:
    text = re.sub(r"&(?=#|\w)", "&amp;", text)
    text = re.sub(r"[\\*\[\]~|]", r"\\\g<0>", text)
    text = re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\_", text)
    return text.replace("<", "&lt;").replace("`", "&#96;")


# ── paragraphs, lists, code ──────────────────────────────────────────────────────────────────────────────────────

_FENCE = re.compile(r"^\s*(?P<marks>`{3,}|~{3,})\s*(?P<info>[^`]*)$")
_ITEM = re.compile(r"^(?P<indent>\s*)(?P<mark>[-*+•]|\d{1,3}[.)])\s+(?P<text>\S.*)$")
_HEADING = re.compile(r"^\s*#{1,6}\s+(?P<text>.*?)\s*#*\s*$")
# Others draw pictures or offer buttons on GitHub (mermaid, geojson, math, suggestion).
_LANGUAGES = frozenset(
    {"bash", "c", "cpp", "css", "diff", "go", "html", "ini", "java", "javascript", "js", "json", "jsx", "kotlin"}
    | {"php", "py", "python", "rb", "rs", "ruby", "rust", "scala", "sh", "sql", "swift", "toml", "ts", "tsx"}
    | {"typescript", "xml", "yaml", "yml"}
)


def prose(text: str, links: Sequence[str] = (), *, limit: int = 6_000) -> str:
    """Several lines: paragraphs, lists and fenced code keep their shape, headings become bold lines.

    Args:
        links: as for ``inline``.
        limit: bytes of ``text`` that are used; what is over is left out with a mark.
    """
    lines = iter(head(clean(text, most=limit).strip(), limit).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_blocks(lines, links))).strip("\n")


def _blocks(lines: Iterator[str], links: Sequence[str]) -> Iterator[str]:
    level = -1
    for line in lines:
        if opened := _FENCE.match(line):
            level = -1
            yield f"\n{_fenced(opened, lines)}\n"
        elif item := _ITEM.match(line):
            level = min(len(item["indent"].expandtabs(4)) // 2, level + 1, 3)
            mark = item["mark"] if item["mark"][0].isdigit() else "-"
            yield f"{'    ' * level}{mark} {inline(item['text'], links)}"
        elif heading := _HEADING.match(line):
            level = -1
            yield f"\n**{inline(heading['text'], links) or '…'}**\n"
        else:
            level = level if line.strip() else -1
            yield inline(line, links)


def _fenced(opened: re.Match[str], lines: Iterator[str]) -> str:
    marks, info = opened["marks"], opened["info"].strip().lower()
    closing = re.compile(rf"^\s*{re.escape(marks[0])}{{{len(marks)},}}\s*$")
    body: list[str] = []
    for line in lines:
        if closing.match(line):
            break
        body.append(line)
    return fence("\n".join(body), info if info in _LANGUAGES else "")


# ── composing ────────────────────────────────────────────────────────────────────────────────────────────────────


def rows(header: Sequence[str], align: str, body: Iterable[Sequence[str]]) -> str:
    """A table. ``align`` has one of ``l``, ``r``, ``c`` a column; cells must be safe already."""
    marks = {"l": "---", "r": "--:", "c": ":-:"}
    lines = [header, [marks[a] for a in align], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def first(items: Sequence[T], most: int) -> tuple[Sequence[T], int]:
    """The first ``most`` of ``items`` and how many are left out."""
    return items[:most], max(0, len(items) - most)


def bullets(items: Sequence[T], line: Callable[[T], str], *, more: int = 0, most: int = LISTED) -> list[str]:
    """A line for each of the first ``most``, and one for the others; ``more`` of them are not even here."""
    shown, left = first(items, most)
    return [f"- {line(item)}" for item in shown] + ([f"- … and {left + more} more"] if left + more else [])


def listed(title: str, names: Sequence[str], mark: str = "") -> str:
    """Names under a title: a single one on its line, several folded."""
    if len(names) == 1:
        return f"{mark}{title}: {code(names[0])}"
    return details(f"{mark}{title}: {len(names)}", "\n".join(bullets(names, code))) if names else ""
