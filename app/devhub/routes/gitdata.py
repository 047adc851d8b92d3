"""The Git database: blobs, trees, commits, refs, tags."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from app.devhub import pulls, refs
from app.devhub.errors import Refused, forbidden, known, not_found
from app.devhub.gitobjects import SHA, ZERO, Person, Ref, TreeChange, seconds, stamp
from app.devhub.records import SignedCommit
from app.devhub.rest import Answer, Body, Call, read, write
from app.devhub.shapes import commits as shapes
from sandbox.text import sound

GIT = "/repos/{owner}/{repo}/git"
MODES = {"100644": "blob", "100755": "blob", "040000": "tree", "160000": "commit", "120000": "blob"}
TREE_LIMIT = 100_000
"""Entries of a recursive tree; more are cut off and ``truncated`` says so."""


def _not_empty(call: Call) -> None:
    if not call.git.refs():
        raise Refused(409, "Git Repository is empty.")


# ── blobs ────────────────────────────────────────────────────────────────────────────────────────────────────────


def create_blob(call: Call) -> Answer:
    _not_empty(call)
    content, encoding = call.body.required("content"), call.body.text("encoding") or "utf-8"
    sha = call.git.write_blob(_decoded(content, encoding))
    url = shapes.blob(call.hub, call.repository, sha, b"")["url"]
    return Answer({"sha": sha, "url": url}, 201)


def _decoded(content: str, encoding: str) -> bytes:
    if encoding != "base64":
        return content.encode("utf-8", "replace")
    try:
        return base64.b64decode("".join(content.split()), validate=True)
    except binascii.Error as error:
        raise Refused(422, "content is not valid Base64") from error


def get_blob(call: Call) -> Answer:
    sha = call.path["file_sha"]
    if call.git.type_of(sha) != "blob":
        raise not_found()
    content = call.git.read_blob(sha)
    if "raw" in call.accept:
        return Answer(content, type="application/vnd.github.raw; charset=utf-8")
    return Answer(shapes.blob(call.hub, call.repository, sha, content))


# ── trees ────────────────────────────────────────────────────────────────────────────────────────────────────────


def create_tree(call: Call) -> Answer:
    _not_empty(call)
    base = call.body.text("base_tree")
    base_tree = call.git.resolve(base, "tree") if base else None
    if base and base_tree is None:
        raise Refused(422, "base_tree is not a valid tree oid")
    items = call.body.objects("tree")
    if not items:
        raise Refused(422, "Invalid tree info")
    changes = [_tree_change(call, item) for item in items]
    _check_paths(call, changes)
    _check_removed(call, base_tree, changes)
    with call.hub.scratch() as scratch:
        sha = call.git.write_tree(base_tree, changes, scratch)
    return Answer(shapes.tree(call.hub, call.repository, sha, call.git.tree(sha)), 201)


def _tree_change(call: Call, item: Body) -> TreeChange:
    path, mode = item.text("path") or "", item.text("mode") or ""
    if mode not in MODES:
        raise Refused(422, "Must supply a valid tree.mode")
    content = item.text("content")
    if content is not None:
        return TreeChange(path, mode, call.git.write_blob(content.encode("utf-8", "replace")))
    if "sha" not in item:
        raise Refused(422, "Must supply either tree.sha or tree.content")
    sha = item.text("sha")
    if sha is not None and MODES[mode] != "commit" and call.git.type_of(sha) != MODES[mode]:
        raise Refused(422, f"tree.sha {sha} is not a valid {MODES[mode]}")
    return TreeChange(path, mode, sha)


# What git itself refuses in a tree, on any file system: its own folder under all the names that reach it.
_FORBIDDEN = re.compile(r"^(\.|\.\.|\.git|git~1)$", re.IGNORECASE)


def _check_paths(call: Call, changes: list[TreeChange]) -> None:
    for change in changes:
        parts = change.path.split("/")
        if not all(part and not _FORBIDDEN.match(part) and "\0" not in part for part in parts):
            raise Refused(422, "tree.path contains a malformed path component")
        if change.path.startswith(refs.WORKFLOWS) and not refs.may_write_workflows(call.caller):
            raise forbidden()


def _check_removed(call: Call, base: str | None, changes: list[TreeChange]) -> None:
    for change in changes:
        if change.sha is None and (base is None or call.git.at(base, change.path) is None):
            raise Refused(422, "GitRPC::BadObjectState")


def get_tree(call: Call) -> Answer:
    _not_empty(call)
    name = call.path["tree_sha"]
    sha = known(call.git.resolve(name, "tree"))
    entries = call.git.tree(sha, recursive="recursive" in call.query)
    cut = len(entries) > TREE_LIMIT
    return Answer(shapes.tree(call.hub, call.repository, sha, entries[:TREE_LIMIT], truncated=cut))


# ── commits ──────────────────────────────────────────────────────────────────────────────────────────────────────


def create_commit(call: Call) -> Answer:
    """A commit. Made by an App that names neither author nor committer, it is GitHub's own, and signed."""
    _not_empty(call)
    git, body = call.git, call.body
    message, tree = body.required("message"), body.required("tree")
    if "\0" in message:
        raise Refused(422, "message contains a null byte")
    parents = [str(parent) for parent in body.items("parents") or []]
    if git.type_of(tree) != "tree":
        raise Refused(422, "Tree SHA does not exist")
    if any(git.type_of(parent) != "commit" for parent in parents):
        raise Refused(422, "Parent SHA does not exist or is not a commit object")
    default = pulls.author_of(call.hub, call.caller)
    author = _person(body.object("author"), default)
    signature = body.text("signature") or ""
    ours = call.caller.app is not None and not signature and "author" not in body and "committer" not in body
    hub_itself = Person("GitHub", "noreply@devhub.localhost", default.date)
    committer = hub_itself if ours else _person(body.object("committer"), author)
    sha = git.write_commit(
        tree=tree, parents=parents, author=author, committer=committer, message=message, signature=signature
    )
    known: dict[str, Any] = {"repository_id": call.repository.id, "sha": sha}
    if ours and not call.hub.store.first(SignedCommit, **known):
        call.hub.store.add(SignedCommit(**known, at=call.hub.stamp()))
    return Answer(shapes.git_commit(call.hub, call.repository, git.commit(sha)), 201)


def _person(given: Body | None, default: Person) -> Person:
    if given is None:
        return default
    date = given.text("date")
    try:
        when = stamp(seconds(date)) if date else default.date
    except ValueError as error:
        raise Refused(422, f"Invalid request.\n\n{date!r} is not a date-time.") from error
    return Person(given.required("name"), given.required("email"), when)


def get_commit(call: Call) -> Answer:
    sha = call.path["commit_sha"]
    if call.git.type_of(sha) != "commit":
        raise not_found()
    return Answer(shapes.git_commit(call.hub, call.repository, call.git.commit(sha)))


# ── refs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _full(call: Call) -> str:
    """The full name of the ref in the path, which leaves ``refs/`` out."""
    return f"refs/{call.path['ref']}"


def get_ref(call: Call) -> Answer:
    _not_empty(call)
    found = known(call.git.ref(_full(call)))
    return Answer(shapes.ref(call.hub, call.repository, found))


def matching_refs(call: Call) -> Answer:
    _not_empty(call)
    return Answer([shapes.ref(call.hub, call.repository, found) for found in call.git.refs(_full(call))])


def _target(call: Call) -> str:
    sha = call.body.required("sha")
    if not SHA.fullmatch(sha):
        raise Refused(422, "The sha parameter must be exactly 40 characters and contain only [0-9a-f].")
    type = call.git.type_of(sha)
    if type is None:
        raise Refused(422, "Object does not exist")
    return sha


def create_ref(call: Call) -> Answer:
    _not_empty(call)
    git, name, sha = call.git, call.body.required("ref"), _target(call)
    if not name.startswith("refs/") or name.count("/") < 2 or not git.valid_ref(name):
        raise Refused(422, f"{sound(name)} is not a valid ref name.")
    if name.startswith("refs/pull/"):
        raise Refused(422, "Reference name is reserved")
    if git.ref(name):
        raise Refused(422, "Reference already exists")
    if name.startswith(refs.HEADS) and git.type_of(sha) != "commit":
        raise Refused(422, "Object is not a commit")
    refs.check(call.hub, call.repository, call.caller, name, sha)
    if not git.set_ref(name, sha, ZERO):
        raise Refused(422, "Reference update failed")
    refs.moved(call.hub, call.repository, call.caller, name, ZERO, sha)
    return Answer(shapes.ref(call.hub, call.repository, _reread(call, name)), 201)


def _reread(call: Call, name: str) -> Ref:
    found = call.git.ref(name)
    assert found is not None
    return found


def change_ref(call: Call) -> Answer:
    git, name, sha = call.git, _full(call), _target(call)
    found = git.ref(name)
    if found is None:
        raise Refused(422, "Reference does not exist")
    refs.check(call.hub, call.repository, call.caller, name, sha)
    if not call.body.flag("force") and not git.is_ancestor(found.sha, sha):
        raise Refused(422, "Update is not a fast forward")
    if not git.set_ref(name, sha, found.sha):
        raise Refused(422, "Reference cannot be updated")
    if found.sha != sha:
        refs.moved(call.hub, call.repository, call.caller, name, found.sha, sha)
    return Answer(shapes.ref(call.hub, call.repository, _reread(call, name)))


def delete_ref(call: Call) -> Answer:
    name = _full(call)
    found = call.git.ref(name)
    if found is None:
        raise Refused(422, "Reference does not exist")
    if name == f"{refs.HEADS}{call.repository.default_branch}":
        raise Refused(422, "Cannot delete the default branch")
    refs.check(call.hub, call.repository, call.caller, name, ZERO)
    call.git.delete_ref(name)
    refs.moved(call.hub, call.repository, call.caller, name, found.sha, ZERO)
    return Answer(status=204)


# ── tags ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def create_tag(call: Call) -> Answer:
    _not_empty(call)
    body, git = call.body, call.git
    object, type = body.required("object"), body.required("type")
    if git.type_of(object) != type:
        raise Refused(422, "Could not verify object")
    tagger = _person(body.object("tagger"), pulls.author_of(call.hub, call.caller))
    name = body.required("tag")
    if not git.valid_ref(f"refs/tags/{name}"):
        raise Refused(422, f"{name} is not a valid tag name.")
    sha = git.write_tag(name=name, object=object, type=type, tagger=tagger, message=body.required("message"))
    return Answer(shapes.tag(call.hub, call.repository, git.tag(sha)), 201)


def get_tag(call: Call) -> Answer:
    sha = call.path["tag_sha"]
    if call.git.type_of(sha) != "tag":
        raise not_found()
    return Answer(shapes.tag(call.hub, call.repository, call.git.tag(sha)))


OPERATIONS = (
    write("POST", f"{GIT}/blobs", create_blob, "contents"),
    read(f"{GIT}/blobs/{{file_sha}}", get_blob, "contents"),
    write("POST", f"{GIT}/trees", create_tree, "contents"),
    read(f"{GIT}/trees/{{tree_sha:path}}", get_tree, "contents"),
    write("POST", f"{GIT}/commits", create_commit, "contents"),
    read(f"{GIT}/commits/{{commit_sha}}", get_commit, "contents"),
    read(f"{GIT}/ref/{{ref:path}}", get_ref, "contents"),
    read(f"{GIT}/matching-refs/{{ref:path}}", matching_refs, "contents"),
    write("POST", f"{GIT}/refs", create_ref, "contents"),
    write("PATCH", f"{GIT}/refs/{{ref:path}}", change_ref, "contents"),
    write("DELETE", f"{GIT}/refs/{{ref:path}}", delete_ref, "contents"),
    write("POST", f"{GIT}/tags", create_tag, "contents"),
    read(f"{GIT}/tags/{{tag_sha}}", get_tag, "contents"),
)
