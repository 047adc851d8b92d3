"""What of a change set may be published: pure, as tables, refusing by default.

A runner's result is data from a machine that ran other people's code. Three answers: a change set that no honest run
makes is refused as a whole; a change that is sound but not ours to make is left out, and shown with its reason; what
hides from a reviewer's eye is published with a remark.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from agent import paths
from agent.config import FILE_NAME as OWN_CONFIG
from agent.errors import UserError
from agent.types import ChangeSet, FileChange
from app.report.facts import Remark

LINK, FILE, PROGRAM = "120000", "100644", "100755"
_GITLINK = "160000"


@dataclass(frozen=True)
class Limits:
    """Upper bounds of one change set; bytes are those of the new contents."""

    files: int = 300
    file_bytes: int = 5_000_000
    total_bytes: int = 20_000_000
    new_lines: int = 100_000
    """Lines of files that are new."""


@dataclass(frozen=True)
class Rules:
    """What may be published at all."""

    limits: Limits = Limits()
    may_write_workflows: bool = False
    """Whether the installation was granted the ``workflows`` permission."""


@dataclass(frozen=True)
class BaseEntry:
    """One path of the base commit's tree."""

    mode: str
    sha: str


Base = Mapping[str, BaseEntry]
"""Path → entry of the base commit, folders left out; all paths, or at least all siblings of what changes and of the
folders above it."""


@dataclass(frozen=True)
class HeldBack:
    """A change that is not published, and why, in words for the reader."""

    change: FileChange
    reason: str


@dataclass(frozen=True)
class Accepted:
    """What may be published. ``changes`` can be empty."""

    base_sha: str
    changes: tuple[FileChange, ...]
    held_back: tuple[HeldBack, ...] = ()
    remarks: tuple[Remark, ...] = ()
    added: frozenset[str] = field(default_factory=frozenset)
    deleted: frozenset[str] = field(default_factory=frozenset)


class ChangeSetRefused(UserError):
    """Nothing of the change set is published. ``code`` is one word for logs and tests."""

    def __init__(self, code: str, what: str, *, todo: str = "") -> None:
        super().__init__(what, why=f"the check '{code}' refused it", todo=todo)
        self.code = code


def check(change_set: ChangeSet, base: Base, rules: Rules = Rules()) -> Accepted:
    """Sort the changes.

    Raises:
        ChangeSetRefused: with the codes ``bad_path``, ``bad_mode``, ``link_leaves``, ``in_submodule``, ``behind_link``,
            ``path_clash``, ``not_in_base`` and ``patch_too_large``.
    """
    changes = change_set.changes
    _check_size(change_set, base, rules.limits)
    for change in changes:
        for sound in _SOUND:
            sound(change, base)
    _check_clashes(changes, base)
    held_back = tuple(_held_back(changes, base, rules))
    held = {item.change.path for item in held_back}
    kept = tuple(change for change in changes if change.path not in held)
    return Accepted(
        base_sha=change_set.base_sha,
        changes=kept,
        held_back=held_back,
        remarks=tuple(remark for change in kept for remark in _remarks(change, base)),
        added=frozenset(c.path for c in kept if c.content is not None and c.path not in base),
        deleted=frozenset(c.path for c in kept if c.content is None),
    )


# ── refused as a whole ───────────────────────────────────────────────────────────────────────────────────────────


def _check_size(change_set: ChangeSet, base: Base, limits: Limits) -> None:
    contents = {change.path: change.content or b"" for change in change_set.changes}
    largest = max(map(len, contents.values()), default=0)
    lines = sum(content.count(b"\n") for path, content in contents.items() if path not in base)
    for number, most, unit in (
        (len(change_set.changes), limits.files, "files"),
        (largest, limits.file_bytes, "bytes in one file"),
        (sum(map(len, contents.values())), limits.total_bytes, "bytes"),
        (lines, limits.new_lines, "new lines"),
    ):
        if number > most:
            raise ChangeSetRefused(
                "patch_too_large",
                f"The change is too large to publish: {number:,} {unit}, at most {most:,}",
                todo="Ask for a smaller change",
            )


def _path_is_sound(change: FileChange, base: Base) -> None:
    try:
        sound = paths.canonical(change.path) == change.path
    except paths.PathRefused as error:
        raise ChangeSetRefused("bad_path", error.what) from error
    if not sound:
        raise ChangeSetRefused("bad_path", f"{change.path!r} is not spelled in the one way that is allowed")
    for part in (change.path, *paths.parents(change.path)):
        try:
            paths.check_new_name(part)
        except paths.PathRefused as error:
            if part not in base and not _folder_of(part, base):
                raise ChangeSetRefused("bad_path", error.what) from error


def _mode_is_sound(change: FileChange, base: Base) -> None:
    if change.mode not in (FILE, PROGRAM, LINK):
        raise ChangeSetRefused("bad_mode", f"{change.path!r} has the mode {change.mode!r}")
    if change.mode != LINK or change.content is None:
        return
    target = change.content.decode("utf-8", "surrogateescape")
    if not paths.link_stays_inside(change.path, target):
        raise ChangeSetRefused("link_leaves", f"The link {change.path!r} leads out of the repository")


def _place_is_sound(change: FileChange, base: Base) -> None:
    entry = base.get(change.path)
    if entry is not None and entry.mode == _GITLINK:
        raise ChangeSetRefused("in_submodule", f"{change.path!r} is a submodule")
    if entry is None and change.content is None:
        raise ChangeSetRefused("not_in_base", f"{change.path!r} is to be deleted but is not there")
    for folder in paths.parents(change.path):
        above = base.get(folder)
        if above is not None and above.mode == _GITLINK:
            raise ChangeSetRefused("in_submodule", f"{change.path!r} is inside the submodule {folder!r}")
        if above is not None and above.mode == LINK:
            raise ChangeSetRefused("behind_link", f"{change.path!r} lies behind the link {folder!r}")


_SOUND: tuple[Callable[[FileChange, Base], None], ...] = (_path_is_sound, _mode_is_sound, _place_is_sound)


def _check_clashes(changes: Iterable[FileChange], base: Base) -> None:
    """No path twice, no file where a folder is, no two names that some file systems take for one."""
    changed = {change.path: change for change in changes}
    if len(changed) != len(tuple(changes)):
        raise ChangeSetRefused("path_clash", "One path is changed twice")
    gone = {path for path, change in changed.items() if change.content is None}
    after = (base.keys() - gone) | (changed.keys() - gone)
    folders = {folder for path in after for folder in paths.parents(path)}
    names: dict[str, set[str]] = {}
    for path in (*after, *folders):
        names.setdefault(paths.folded(path), set()).add(path)
    for path in changed.keys() - gone:
        if path in folders:
            raise ChangeSetRefused("path_clash", f"{path!r} would be a file and a folder at once")
        for part in (path, *paths.parents(path)):
            if part in after and part != path:
                raise ChangeSetRefused("path_clash", f"{path!r} would lie inside the file {part!r}")
            twins = names[paths.folded(part)] - {part}
            if twins and part not in base and not _folder_of(part, base):
                shown = " and ".join(repr(name) for name in sorted({part, *twins}))
                raise ChangeSetRefused("path_clash", f"{shown} differ only in case or spelling")


def _folder_of(folder: str, base: Base) -> bool:
    return any(path.startswith(f"{folder}/") for path in base)


# ── left out ─────────────────────────────────────────────────────────────────────────────────────────────────────

_WORKFLOW = re.compile(r"\.github/(workflows|actions)/")
_NO_WORKFLOWS = "the App may not change workflows (it does not have the `workflows` permission)"
_DOCS = r"(\.github/|\.gitlab/|docs/)?"
# Compared with the folded path: `.GitHub/Workflows` is the same folder to half of the world's disks.
PROTECTED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), reason)
    for pattern, reason in (
        (rf"{_DOCS}codeowners", "who owns which code is for the maintainers to decide"),
        (
            r"\.github/(dependabot\.ya?ml|renovate\.json5?|settings\.ya?ml)",
            "it configures other bots of the repository",
        ),
        (r"\.renovaterc(\.json5?)?|renovate\.json5?", "it configures other bots of the repository"),
        (rf"{_DOCS}security(\.\w+)?", "the security policy is for the maintainers to change"),
        (
            r"(.*/)?(agents|claude|gemini|copilot-instructions)(\.local)?\.md",
            "it gives orders to coding agents",
        ),
        (r"(.*/)?\.(cursor|windsurf|cline|roo|goose)(rules|ignore|hints)", "it gives orders to coding agents"),
        (
            r"(.*/)?\.(cursor|claude|codex|gemini|windsurf|continue|aider|roo|cline|amp|kiro)(/.*|\..*)",
            "it gives orders to coding agents",
        ),
        (r"\.github/(instructions|prompts|chatmodes|agents|copilot)/.*", "it gives orders to coding agents"),
        (r"(.*/)?\.?mcp\.json", "it gives orders to coding agents"),
        (re.escape(OWN_CONFIG), "a change may not alter the rules that it is judged by"),
        (r"(.*/)?\.gitmodules|\.lfsconfig", "it names other repositories to fetch from"),
        (
            r"\.(husky|devcontainer|githooks)/.*|\.devcontainer\.json",
            "it runs on the machines of those who check out",
        ),
        (
            r"\.vscode/(tasks|launch|settings|extensions|mcp)\.json|\.idea/.*",
            "it runs on the machines of those who check out",
        ),
        (
            r"\.(gitlab-ci|travis|appveyor|drone|cirrus|woodpecker|pre-commit-config)\.ya?ml"
            r"|(appveyor|azure-pipelines|bitbucket-pipelines|buildspec|cloudbuild|codefresh|wercker)\.ya?ml"
            r"|\.(circleci|buildkite|woodpecker|semaphore|teamcity)/.*|jenkinsfile",
            "it decides what runs on other machines",
        ),
    )
)


def _held_back(changes: Iterable[FileChange], base: Base, rules: Rules) -> Iterator[HeldBack]:
    top = {path.split("/", 1)[0] for path in base if "/" in path}
    for change in changes:
        if reason := _reason(change, base, rules, top):
            yield HeldBack(change, reason)


def _reason(change: FileChange, base: Base, rules: Rules, top: set[str]) -> str:
    folded = paths.folded(change.path)
    if _WORKFLOW.match(folded):
        return "" if rules.may_write_workflows else _NO_WORKFLOWS
    for pattern, reason in PROTECTED:
        if pattern.fullmatch(folded):
            return reason
    first, slash, _ = change.path.partition("/")
    if slash and first.startswith(".") and first not in top:
        return f"`{first}` would be a new folder that tools read without being asked"
    new = change.path not in base
    if new and change.content is not None and is_binary(change.content):
        return "it is a new binary file, which nobody can review"
    return ""


def is_binary(content: bytes) -> bool:
    """Whether a reviewer would see no text: git's own rule (a NUL near the start), or not UTF-8."""
    if b"\0" in content[:8_000]:
        return True
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


# ── published with a remark ──────────────────────────────────────────────────────────────────────────────────────

_DIRECTION = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNSEEN = re.compile(r"[\u00ad\u034f\u115f\u1160\u200b\u2060-\u2064\u3164\uffa0\U000e0000-\U000e0fff]|(?<!^)\ufeff")
_MIXED = re.compile(r"[^\W\d_]{2,}")
_HIDES = re.compile(
    r"linguist-(generated|vendored|documentation)|-diff\b|\bdiff=|\bbinary\b|-text\b|\bfilter=|\bmerge="
)
_MOST_MARKS = 3


def _remarks(change: FileChange, base: Base) -> Iterator[Remark]:
    if change.content is None:
        return
    entry = base.get(change.path)
    if change.mode == LINK:
        yield Remark(change.path, "is a symbolic link")
    if change.mode == PROGRAM and (entry is None or entry.mode != PROGRAM):
        yield Remark(change.path, "is made executable")
    if _WORKFLOW.match(paths.folded(change.path)):
        yield Remark(change.path, "runs with the repository's own rights")
    if is_binary(change.content):
        yield Remark(change.path, "is not UTF-8 text, so the changes may not be shown")
        return
    text = change.content.decode("utf-8")
    yield from (Remark(change.path, detail) for detail in _tricks(text))
    if change.path.rsplit("/", 1)[-1].casefold() == ".gitattributes" and _HIDES.search(text):
        yield Remark(
            change.path, "can hide other changes from review (attributes for diff, filters or generated files)"
        )


def _tricks(text: str) -> Iterator[str]:
    """What makes code read otherwise than it runs: turned direction, unseen signs, look-alike letters."""
    for pattern, what in (
        (_DIRECTION, "signs that turn the reading direction"),
        (_UNSEEN, "signs that cannot be seen"),
    ):
        if places := _some(text, pattern.finditer(text), lambda sign: f"U+{ord(sign):04X} in "):
            yield f"holds {what} ({places})"
    words = (m for m in _MIXED.finditer(text) if not m[0].isascii() and _mixes_scripts(m[0]))
    if places := _some(text, words, lambda _: ""):
        yield f"holds words that mix letters of several scripts ({places})"


def _some(text: str, found: Iterator[re.Match[str]], what: Callable[[str], str]) -> str:
    """The lines of the first of ``found``, and how many more there are; empty where there is none."""
    places = [f"{what(m[0])}line {text.count(chr(10), 0, m.start()) + 1}" for m in islice(found, _MOST_MARKS)]
    more = sum(1 for _ in found)
    return ", ".join(places) + (f" and {more} more" if more else "")


def _mixes_scripts(word: str) -> bool:
    scripts = {unicodedata.name(letter, "").split(" ", 1)[0] for letter in word}
    return len(scripts & {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE"}) > 1
