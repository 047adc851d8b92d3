"""Labels, issues, comments, reactions."""

from __future__ import annotations

from app.devhub.auth import permission_of
from app.devhub.hub import Hub
from app.devhub.records import Comment, Issue, Label, Pull, Reaction, Repository, User
from app.devhub.shapes.accounts import Json, maybe_app, maybe_user, node_id, user

REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "eyes", "rocket")


def label(hub: Hub, found: Label) -> Json:
    repository = hub.store.get(Repository, found.repository_id)
    return {
        "id": found.id,
        "node_id": node_id(found),
        "url": hub.api(f"/repos/{hub.full_name(repository)}/labels/{found.name}"),
        "name": found.name,
        "color": found.color,
        "default": False,
        "description": found.description,
        "archived_at": None,
        "archived_by": None,
    }


def association(hub: Hub, repository: Repository, user_id: int) -> str:
    if user_id == repository.owner_id:
        return "OWNER"
    level = permission_of(hub.store, repository, hub.store.get(User, user_id))
    return "COLLABORATOR" if level in ("triage", "write", "maintain", "admin") else "NONE"


def rollup(hub: Hub, subject: str, id: int, url: str) -> Json:
    """How often each reaction was given."""
    given = [reaction.content for reaction in hub.store.find(Reaction, subject=subject, subject_id=id)]
    counts = {content: given.count(content) for content in REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(given), **counts}


def reaction(hub: Hub, found: Reaction) -> Json:
    return {
        "id": found.id,
        "node_id": node_id(found),
        "user": maybe_user(hub, found.user_id),
        "content": found.content,
        "created_at": found.created_at,
    }


def issue(hub: Hub, found: Issue) -> Json:
    repository = hub.store.get(Repository, found.repository_id)
    repository_url = hub.api(f"/repos/{hub.full_name(repository)}")
    url = f"{repository_url}/issues/{found.number}"
    assignees = [user(hub, hub.store.get(User, id)) for id in found.assignee_ids]
    shape: Json = {
        "url": url,
        "repository_url": repository_url,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": issue_page(hub, found),
        "id": found.id,
        "node_id": node_id(found),
        "number": found.number,
        "title": found.title,
        "user": maybe_user(hub, found.user_id),
        "labels": [label(hub, hub.store.get(Label, id)) for id in found.label_ids],
        "state": found.state,
        "state_reason": found.state_reason,
        "locked": found.locked,
        "active_lock_reason": found.lock_reason,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "comments": len(hub.store.find(Comment, issue_id=found.id)),
        "created_at": found.created_at,
        "updated_at": found.updated_at,
        "closed_at": found.closed_at,
        "closed_by": maybe_user(hub, found.closed_by_id),
        "author_association": association(hub, repository, found.user_id),
        "body": found.body,
        "reactions": rollup(hub, "issues", found.id, url),
        "timeline_url": f"{url}/timeline",
        "performed_via_github_app": maybe_app(hub, found.app_id),
    }
    return {**shape, **_pull_side(hub, found, repository_url)} if found.is_pull else shape


def issue_page(hub: Hub, found: Issue) -> str:
    repository = hub.store.get(Repository, found.repository_id)
    return hub.web(f"/{hub.full_name(repository)}/{'pull' if found.is_pull else 'issues'}/{found.number}")


def _pull_side(hub: Hub, found: Issue, repository_url: str) -> Json:
    pull = hub.store.first(Pull, issue_id=found.id)
    assert pull is not None
    page = issue_page(hub, found)
    links = {
        "url": f"{repository_url}/pulls/{found.number}",
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "merged_at": pull.merged_at,
    }
    return {"draft": pull.draft, "pull_request": links}


def comment(hub: Hub, found: Comment) -> Json:
    repository = hub.store.get(Repository, found.repository_id)
    parent = hub.store.get(Issue, found.issue_id)
    base = hub.api(f"/repos/{hub.full_name(repository)}/issues")
    url = f"{base}/comments/{found.id}"
    return {
        "url": url,
        "html_url": f"{issue_page(hub, parent)}#issuecomment-{found.id}",
        "issue_url": f"{base}/{parent.number}",
        "id": found.id,
        "node_id": node_id(found),
        "user": maybe_user(hub, found.user_id),
        "created_at": found.created_at,
        "updated_at": found.updated_at,
        "author_association": association(hub, repository, found.user_id),
        "body": found.body,
        "reactions": rollup(hub, "comments", found.id, url),
        "performed_via_github_app": maybe_app(hub, found.app_id),
    }
