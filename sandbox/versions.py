"""Which versions of a language a version manager would choose, from its own folders and the files of a checkout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sandbox.machine import text_of

_FILES = (".python-version", ".ruby-version", ".node-version")


def chosen(manager: Path, checkout: Path | None) -> Iterator[Path]:
    """The folders of the versions, each with a ``bin``.

    Args:
        manager: the folder that holds the manager's ``shims``.
    """
    yield from _of_one_language(manager, checkout)
    yield from _of_many_languages(manager, checkout)


def _of_one_language(manager: Path, checkout: Path | None) -> Iterator[Path]:
    """Of pyenv, rbenv, nodenv: the versions named by the checkout or a folder above it, else the global ones."""
    local = [folder / name for folder in _upwards(checkout) for name in _FILES]
    for file in (*local, manager / "version"):
        if named := [found for name in text_of(file).split() if (found := _installed(manager / "versions", name))]:
            yield from named
            return


def _of_many_languages(manager: Path, checkout: Path | None) -> Iterator[Path]:
    """Of asdf and mise: of each language the version named by the checkout or a folder above it, else the newest."""
    named: dict[str, str] = {}
    for folder in _upwards(checkout):
        for line in text_of(folder / ".tool-versions").splitlines():
            language, version, *_ = *line.split(), "", ""
            named.setdefault(language, version)
    for installed in sorted((manager / "installs").glob("*")):
        found = _installed(installed, named.get(installed.name, "")) or _newest(installed.glob("*"))
        if found is not None and found.is_dir():
            yield found


def _installed(versions: Path, name: str) -> Path | None:
    """``3.11`` stands for the newest ``3.11.x``. The name is a repository's word: one path part and no more."""
    if not name or "/" in name or name.startswith("."):
        return None
    if (versions / name).is_dir():
        return versions / name
    return _newest(found for found in versions.glob("*") if found.name.startswith(f"{name}."))


def _newest(versions: Iterable[Path]) -> Path | None:
    def numbers(version: Path) -> list[int]:
        return [int(part) if part.isdigit() else -1 for part in version.name.split(".")]

    return max(versions, key=numbers, default=None)


def _upwards(checkout: Path | None) -> tuple[Path, ...]:
    return (checkout, *checkout.parents) if checkout else ()
