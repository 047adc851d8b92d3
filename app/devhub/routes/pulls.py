"""Pull requests."""

from __future__ import annotations

from app.devhub import pulls, refs
from app.devhub.errors import Refused
from app.devhub.records import Pull
from app.devhub.rest import Answer, Call, Page, read, write
from app.devhub.shapes import commits as commit_shapes
from app.devhub.shapes import pulls as shapes

PULLS = "/repos/{owner}/{repo}/pulls"
PULL = f"{PULLS}/{{pull_number}}"


def _pull(call: Call) -> Pull:
    return pulls.numbered(call.hub, call.repository, call.number("pull_number"))


def list_pulls(call: Call) -> Page:
    """Open ones unless asked otherwise, newest first."""
    state, head, base = call.query.get("state", "open"), call.query.get("head"), call.query.get("base")
    kept = [
        pull
        for pull in call.hub.store.find(Pull, repository_id=call.repository.id)
        if state in ("all", pulls.issue_of(call.hub, pull).state)
        and base in (None, pull.base_ref)
        and (head is None or shapes.simple(call.hub, pull)["head"]["label"] == head)
    ]
    newest_first = call.query.get("direction", "desc") == "desc"
    kept.sort(key=lambda pull: pull.number, reverse=newest_first)
    return Page(kept, lambda pull: shapes.simple(call.hub, pull))


def create_pull(call: Call) -> Answer:
    body = call.body
    if body.number("issue") is not None:
        raise Refused(422, "Turning an issue into a pull request is not something that this stand-in does.")
    wish = body.flag("maintainer_can_modify")
    pull = pulls.open_pull(
        call.hub,
        call.repository,
        call.caller,
        title=body.required("title"),
        head=body.required("head"),
        base_ref=body.required("base"),
        body=body.text("body"),
        draft=bool(body.flag("draft")),
        maintainer_can_modify=True if wish is None else wish,
    )
    return Answer(shapes.pull(call.hub, pull), 201)


def get_pull(call: Call) -> Answer:
    pull = _pull(call)
    if "diff" in call.accept:
        return Answer(shapes.patch_of(call.hub, pull), type="application/vnd.github.diff; charset=utf-8")
    return Answer(shapes.pull(call.hub, pull))


def change_pull(call: Call) -> Answer:
    body = call.body
    pull = pulls.change(
        call.hub,
        _pull(call),
        call.caller,
        title=body.text("title"),
        body=body.text("body"),
        state=body.text("state"),
        base_ref=body.text("base"),
    )
    return Answer(shapes.pull(call.hub, pull))


def list_files(call: Call) -> Page:
    pull = _pull(call)
    files = shapes.files_of(call.hub, pull)
    return Page(files, lambda file: commit_shapes.changed_file(call.hub, call.repository, pull.head_sha, file))


def list_commits(call: Call) -> Page:
    def shape(sha: str) -> object:
        return commit_shapes.commit(call.hub, call.repository, call.git.commit(sha))

    return Page(shapes.commits_of(call.hub, _pull(call)), shape)


def merge_pull(call: Call) -> Answer:
    pull = _pull(call)
    method = call.body.text("merge_method") or "merge"
    if method != "merge":
        raise Refused(405, "Only merge commits are allowed on this repository.")
    sha = refs.merge_pull(
        call.hub,
        pull,
        call.caller,
        title=call.body.text("commit_title"),
        message=call.body.text("commit_message"),
        expected=call.body.text("sha"),
    )
    return Answer({"sha": sha, "merged": True, "message": "Pull Request successfully merged"})


OPERATIONS = (
    read(PULLS, list_pulls, "pull_requests"),
    write("POST", PULLS, create_pull, "pull_requests", person="read"),
    read(PULL, get_pull, "pull_requests"),
    write("PATCH", PULL, change_pull, "pull_requests"),
    read(f"{PULL}/files", list_files, "pull_requests"),
    read(f"{PULL}/commits", list_commits, "pull_requests"),
    write("PUT", f"{PULL}/merge", merge_pull, "contents"),
)
