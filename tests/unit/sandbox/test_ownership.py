"""A tree goes to the sandbox's user and comes back, whatever was planted in it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sandbox import remove_tree
from sandbox.types import Mount
from tests.unit.sandbox.conftest import Kind, Shell

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs commands as another user")


def test_what_a_command_locked_can_be_read_and_removed(sandbox: Kind, shell: Shell, checkout: Mount) -> None:
    shell("mkdir -p a/b; echo x > a/b/c; chmod 2000 a/b/c a/b a", cwd=checkout.target, mounts=(checkout,))

    sandbox.reclaim(checkout.source)

    assert (checkout.source / "a/b/c").read_text() == "x\n"
    modes = [stat.S_IMODE((checkout.source / path).stat().st_mode) for path in ("a", "a/b", "a/b/c")]
    assert modes == [0o700, 0o700, 0o600], "for whoever is not root"
    remove_tree(checkout.source / "a")
    assert not (checkout.source / "a").exists()
    remove_tree(checkout.source / "a")


@as_root
def test_links_that_a_command_planted_lead_nowhere(
    sandbox: Kind, shell: Shell, checkout: Mount, tmp_path: Path
) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.write_text("mine"), folder.mkdir(), (folder / "inner").write_text("mine")
    for path in (outside, folder, folder / "inner"):
        path.chmod(0o500 if path.is_dir() else 0o444)
    before = {path: path.stat() for path in (outside, folder, folder / "inner")}
    line = f"mkdir real; mv real was; ln -s {folder} real; ln -s {outside} file; ln -s loop loop"
    shell(line, cwd=checkout.target, mounts=(checkout,))
    (checkout.source / "tracked").symlink_to(outside)  # as a repository may bring it

    sandbox.own(checkout.source)
    sandbox.reclaim(checkout.source)

    for path, found in before.items():
        assert (path.stat().st_mode, path.stat().st_uid, path.stat().st_ctime_ns) == (
            found.st_mode,
            found.st_uid,
            found.st_ctime_ns,
        )
    remove_tree(checkout.source / "real")
    assert (folder / "inner").exists()


@as_root
def test_programs_that_would_become_root_lose_the_bit(shell: Shell, sandbox: Kind, checkout: Mount) -> None:
    shell("cp /bin/true become; chmod 6755 become", cwd=checkout.target, mounts=(checkout,))

    sandbox.reclaim(checkout.source)

    found = (checkout.source / "become").stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o755)


@as_root
def test_a_file_with_another_name_elsewhere_keeps_its_owner(sandbox: Kind, shell: Shell, checkout: Mount) -> None:
    users_file = checkout.source.with_name(f"{checkout.source.name}-users-file")
    users_file.write_text("mine")
    os.link(users_file, checkout.source / "shared")
    try:
        sandbox.own(checkout.source)
        shell("echo changed > shared", cwd=checkout.target, mounts=(checkout,))
        sandbox.reclaim(checkout.source)

        assert (users_file.read_text(), users_file.stat().st_uid) == ("mine", 0)
    finally:
        users_file.unlink()


def test_a_tree_deeper_than_a_path_may_be(sandbox: Kind, shell: Shell, checkout: Mount) -> None:
    folder = "/".join(["d" * 200] * 15)
    line = f"for i in 1 2 3; do mkdir -p {folder} && cd {folder}; done"
    shell(line, cwd=checkout.target, mounts=(checkout,))

    sandbox.reclaim(checkout.source)
    sandbox.own(checkout.source)
    for child in list(checkout.source.iterdir()):
        remove_tree(child)

    assert list(checkout.source.iterdir()) == []


def test_a_link_above_the_tree_is_ours_and_followed(sandbox: Kind, checkout: Mount, tmp_path: Path) -> None:
    (checkout.source / "folder").mkdir()
    (tmp_path / "linked").symlink_to(checkout.source)

    sandbox.own(tmp_path / "linked/folder")
    sandbox.reclaim(tmp_path / "linked/folder")
    remove_tree(tmp_path / "linked/folder")

    assert not (checkout.source / "folder").exists()
