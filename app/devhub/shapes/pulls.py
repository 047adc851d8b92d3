"""Pull requests, reviews, review comments."""

from __future__ import annotations

from app.devhub.gitobjects import FileDiff
from app.devhub.hub import Hub
from app.devhub.records import Comment, Issue, Pull, Repository, Review, ReviewComment, User
from app.devhub.shapes.accounts import Json, maybe_user, node_id, repository, user
from app.devhub.shapes.issues import association, issue, issue_page, rollup


def simple(hub: Hub, found: Pull) -> Json:
    """A pull request as lists show it."""
    side = hub.store.get(Issue, found.issue_id)
    base = hub.store.get(Repository, found.repository_id)
    name = hub.full_name(base)
    url = hub.api(f"/repos/{name}/pulls/{found.number}")
    as_issue = issue(hub, side)
    links = {
        "self": url,
        "html": as_issue["html_url"],
        "issue": as_issue["url"],
        "comments": f"{as_issue['url']}/comments",
        "review_comments": f"{url}/comments",
        "review_comment": hub.api(f"/repos/{name}/pulls/comments{{/number}}"),
        "commits": f"{url}/commits",
        "statuses": hub.api(f"/repos/{name}/statuses/{found.head_sha}"),
    }
    kept = (
        *("number", "title", "user", "body", "labels", "state", "locked", "active_lock_reason", "assignee"),
        *("assignees", "milestone", "created_at", "updated_at", "closed_at", "author_association"),
    )
    return {
        "url": url,
        "id": found.id,
        "node_id": node_id(found),
        **{field: as_issue[field] for field in kept},
        "html_url": as_issue["html_url"],
        "diff_url": f"{as_issue['html_url']}.diff",
        "patch_url": f"{as_issue['html_url']}.patch",
        "issue_url": as_issue["url"],
        "commits_url": links["commits"],
        "review_comments_url": links["review_comments"],
        "review_comment_url": links["review_comment"],
        "comments_url": links["comments"],
        "statuses_url": links["statuses"],
        "requested_reviewers": [user(hub, hub.store.get(User, id)) for id in found.reviewer_ids],
        "requested_teams": [],
        "head": _head(hub, found, base),
        "base": _branch(hub, base, found.base_ref, found.base_sha),
        "_links": {link: {"href": target} for link, target in links.items()},
        "auto_merge": None,
        "draft": found.draft,
        "merged_at": found.merged_at,
        "merge_commit_sha": found.merge_commit_sha,
    }


def _branch(hub: Hub, where: Repository, ref: str, sha: str) -> Json:
    owner = hub.owner(where)
    return {
        "label": f"{owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": user(hub, owner),
        "repo": repository(hub, where),
    }


def _head(hub: Hub, found: Pull, base: Repository) -> Json:
    if found.head_repository_id is not None:
        return _branch(hub, hub.store.get(Repository, found.head_repository_id), found.head_ref, found.head_sha)
    gone: Json = {"label": f"unknown:{found.head_ref}", "repo": None, "user": None}
    return {**_branch(hub, base, found.head_ref, found.head_sha), **gone}


def pull(hub: Hub, found: Pull) -> Json:
    """A pull request as its own page shows it, counts and mergeability included."""
    base = hub.store.get(Repository, found.repository_id)
    git = hub.git(base)
    files = files_of(hub, found)
    mergeable = None if found.merged_at else git.merge(_base_head(hub, found), found.head_sha) is not None
    return {
        **simple(hub, found),
        "merged": found.merged_at is not None,
        "mergeable": mergeable,
        "rebaseable": mergeable,
        "mergeable_state": {None: "unknown", True: "draft" if found.draft else "clean", False: "dirty"}[mergeable],
        "merged_by": maybe_user(hub, found.merged_by_id),
        "comments": len(hub.store.find(Comment, issue_id=found.issue_id)),
        "review_comments": len(hub.store.find(ReviewComment, pull_id=found.id)),
        "maintainer_can_modify": found.maintainer_can_modify,
        "commits": len(commits_of(hub, found)),
        "additions": sum(file.additions for file in files),
        "deletions": sum(file.deletions for file in files),
        "changed_files": len(files),
    }


def _base_head(hub: Hub, found: Pull) -> str:
    base = hub.git(hub.store.get(Repository, found.repository_id))
    return base.resolve(f"refs/heads/{found.base_ref}") or found.base_sha


def files_of(hub: Hub, found: Pull) -> list[FileDiff]:
    """Changes since the branches parted."""
    return hub.git(hub.store.get(Repository, found.repository_id)).diff(_parted(hub, found), found.head_sha)


def patch_of(hub: Hub, found: Pull) -> bytes:
    """The same as text."""
    return hub.git(hub.store.get(Repository, found.repository_id)).patch(_parted(hub, found), found.head_sha)


def _parted(hub: Hub, found: Pull) -> str:
    git = hub.git(hub.store.get(Repository, found.repository_id))
    return git.merge_base(found.base_sha, found.head_sha) or found.base_sha


def commits_of(hub: Hub, found: Pull) -> list[str]:
    """Ids of the commits, oldest first."""
    git = hub.git(hub.store.get(Repository, found.repository_id))
    return git.log(found.head_sha, since=found.base_sha)[::-1]


def minimal(hub: Hub, found: Pull) -> Json:
    """A pull request as check runs name it."""
    base = hub.store.get(Repository, found.repository_id)
    head = hub.store.get(Repository, found.head_repository_id) if found.head_repository_id else base
    return {
        "id": found.id,
        "number": found.number,
        "url": hub.api(f"/repos/{hub.full_name(base)}/pulls/{found.number}"),
        "head": {"ref": found.head_ref, "sha": found.head_sha, "repo": _named(hub, head)},
        "base": {"ref": found.base_ref, "sha": found.base_sha, "repo": _named(hub, base)},
    }


def _named(hub: Hub, found: Repository) -> Json:
    return {"id": found.id, "url": hub.api(f"/repos/{hub.full_name(found)}"), "name": found.name}


def review(hub: Hub, found: Review) -> Json:
    parent = hub.store.get(Pull, found.pull_id)
    base = hub.store.get(Repository, parent.repository_id)
    html = f"{issue_page(hub, hub.store.get(Issue, parent.issue_id))}#pullrequestreview-{found.id}"
    url = hub.api(f"/repos/{hub.full_name(base)}/pulls/{parent.number}")
    shape: Json = {
        "id": found.id,
        "node_id": node_id(found),
        "user": maybe_user(hub, found.user_id),
        "body": found.body,
        "state": found.state,
        "html_url": html,
        "pull_request_url": url,
        "author_association": association(hub, base, found.user_id),
        "_links": {"html": {"href": html}, "pull_request": {"href": url}},
        "commit_id": found.commit_id,
    }
    return {**shape, "submitted_at": found.submitted_at} if found.submitted_at else shape


def review_comment(hub: Hub, found: ReviewComment) -> Json:
    parent = hub.store.get(Pull, found.pull_id)
    base = hub.store.get(Repository, found.repository_id)
    root = hub.api(f"/repos/{hub.full_name(base)}/pulls")
    url = f"{root}/comments/{found.id}"
    html = f"{issue_page(hub, hub.store.get(Issue, parent.issue_id))}#discussion_r{found.id}"
    shape: Json = {
        "url": url,
        "pull_request_review_id": found.review_id,
        "id": found.id,
        "node_id": node_id(found),
        "diff_hunk": found.diff_hunk,
        "path": found.path,
        "commit_id": found.commit_id,
        "original_commit_id": found.commit_id,
        "user": maybe_user(hub, found.user_id),
        "body": found.body,
        "created_at": found.created_at,
        "updated_at": found.updated_at,
        "html_url": html,
        "pull_request_url": f"{root}/{parent.number}",
        "author_association": association(hub, base, found.user_id),
        "_links": {
            "self": {"href": url},
            "html": {"href": html},
            "pull_request": {"href": f"{root}/{parent.number}"},
        },
        "reactions": rollup(hub, "pulls/comments", found.id, url),
        "start_line": found.start_line,
        "original_start_line": found.start_line,
        "start_side": found.start_side,
        "side": found.side,
        "subject_type": found.subject_type,
    }
    if found.position is not None:
        shape |= {"position": found.position, "original_position": found.position}
    if found.line is not None:
        shape |= {"line": found.line, "original_line": found.line}
    if found.in_reply_to_id is not None:
        shape["in_reply_to_id"] = found.in_reply_to_id
    return shape
