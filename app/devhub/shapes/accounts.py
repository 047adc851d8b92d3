"""Users, Apps, installations, repositories."""

from __future__ import annotations

import base64
from typing import Any

from app.devhub.auth import LEVELS, client_id
from app.devhub.hub import Hub
from app.devhub.records import App, Installation, Issue, Record, Repository, User

Json = dict[str, Any]


def node_id(record: Record) -> str:
    """An opaque id that differs by kind."""
    return base64.b64encode(f"{type(record).__name__}:{record.id}".encode()).decode()


def user(hub: Hub, found: User) -> Json:
    url = hub.api(f"/users/{found.login}")
    html = hub.web(f"/{found.login}")
    return {
        "login": found.login,
        "id": found.id,
        "node_id": node_id(found),
        "avatar_url": hub.web(f"/_devhub/avatar/{found.id}.svg"),
        "gravatar_id": "",
        "url": url,
        "html_url": html,
        "followers_url": f"{url}/followers",
        "following_url": f"{url}/following{{/other_user}}",
        "gists_url": f"{url}/gists{{/gist_id}}",
        "starred_url": f"{url}/starred{{/owner}}{{/repo}}",
        "subscriptions_url": f"{url}/subscriptions",
        "organizations_url": f"{url}/orgs",
        "repos_url": f"{url}/repos",
        "events_url": f"{url}/events{{/privacy}}",
        "received_events_url": f"{url}/received_events",
        "type": found.type,
        "user_view_type": "public",
        "site_admin": False,
    }


def maybe_user(hub: Hub, id: int | None) -> Json | None:
    return None if id is None else user(hub, hub.store.get(User, id))


def profile(hub: Hub, found: User) -> Json:
    """A user with what only the user's own page shows."""
    return {
        **user(hub, found),
        "name": found.name,
        "company": None,
        "blog": "",
        "location": None,
        "email": found.email,
        "hireable": None,
        "bio": None,
        "twitter_username": None,
        "public_repos": 0,
        "public_gists": 0,
        "followers": 0,
        "following": 0,
        "created_at": found.created_at,
        "updated_at": found.created_at,
    }


def permissions(level: str | None) -> dict[str, bool]:
    have = LEVELS.get(level or "", 0)
    names = {"admin": "admin", "maintain": "maintain", "push": "write", "triage": "triage", "pull": "read"}
    return {name: have >= LEVELS[needed] for name, needed in names.items()}


def app(hub: Hub, found: App) -> Json:
    return {
        "id": found.id,
        "client_id": client_id(found),
        "slug": found.slug,
        "node_id": node_id(found),
        "owner": user(hub, hub.store.get(User, found.owner_id)),
        "name": found.name,
        "description": "",
        "external_url": hub.web(f"/apps/{found.slug}"),
        "html_url": hub.web(f"/apps/{found.slug}"),
        "created_at": found.created_at,
        "updated_at": found.created_at,
        "permissions": dict(found.permissions),
        "events": list(found.events),
        "installations_count": len(hub.store.find(Installation, app_id=found.id)),
    }


def maybe_app(hub: Hub, id: int | None) -> Json | None:
    return None if id is None else app(hub, hub.store.get(App, id))


def installation(hub: Hub, found: Installation) -> Json:
    account = hub.store.get(User, found.account_id)
    made_by = hub.store.get(App, found.app_id)
    return {
        "id": found.id,
        "client_id": client_id(made_by),
        "account": user(hub, account),
        "access_tokens_url": hub.api(f"/app/installations/{found.id}/access_tokens"),
        "repositories_url": hub.api("/installation/repositories"),
        "html_url": hub.web(f"/settings/installations/{found.id}"),
        "app_id": found.app_id,
        "app_slug": made_by.slug,
        "target_id": account.id,
        "target_type": account.type,
        "permissions": dict(found.permissions),
        "events": list(found.events),
        "created_at": found.created_at,
        "updated_at": found.created_at,
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "repository_selection": "all" if found.repository_ids is None else "selected",
        "suspended_by": None,
        "suspended_at": found.suspended_at,
    }


# ── repositories ─────────────────────────────────────────────────────────────────────────────────────────────────

_TEMPLATES = {
    "archive_url": "/{archive_format}{/ref}",
    "assignees_url": "/assignees{/user}",
    "blobs_url": "/git/blobs{/sha}",
    "branches_url": "/branches{/branch}",
    "collaborators_url": "/collaborators{/collaborator}",
    "comments_url": "/comments{/number}",
    "commits_url": "/commits{/sha}",
    "compare_url": "/compare/{base}...{head}",
    "contents_url": "/contents/{+path}",
    "contributors_url": "/contributors",
    "deployments_url": "/deployments",
    "downloads_url": "/downloads",
    "events_url": "/events",
    "forks_url": "/forks",
    "git_commits_url": "/git/commits{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "hooks_url": "/hooks",
    "issue_comment_url": "/issues/comments{/number}",
    "issue_events_url": "/issues/events{/number}",
    "issues_url": "/issues{/number}",
    "keys_url": "/keys{/key_id}",
    "labels_url": "/labels{/name}",
    "languages_url": "/languages",
    "merges_url": "/merges",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "pulls_url": "/pulls{/number}",
    "releases_url": "/releases{/id}",
    "stargazers_url": "/stargazers",
    "statuses_url": "/statuses/{sha}",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "tags_url": "/tags",
    "teams_url": "/teams",
    "trees_url": "/git/trees{/sha}",
}


def repository(hub: Hub, found: Repository, *, level: str | None = None) -> Json:
    """A repository as lists and events show it; with ``level``, what the caller may do there."""
    name = hub.full_name(found)
    url = hub.api(f"/repos/{name}")
    html = hub.web(f"/{name}")
    open_issues = len(hub.store.find(Issue, repository_id=found.id, state="open"))
    forks = len(hub.store.find(Repository, fork_of_id=found.id))
    shape: Json = {
        "id": found.id,
        "node_id": node_id(found),
        "name": found.name,
        "full_name": name,
        "private": found.private,
        "owner": user(hub, hub.owner(found)),
        "html_url": html,
        "description": found.description,
        "fork": found.fork_of_id is not None,
        "url": url,
        **{field: url + rest for field, rest in _TEMPLATES.items()},
        "git_url": html.replace("http", "git", 1) + ".git",
        "ssh_url": f"git@devhub.localhost:{name}.git",
        "clone_url": f"{html}.git",
        "svn_url": html,
        "mirror_url": None,
        "homepage": None,
        "size": 0,
        "stargazers_count": 0,
        "watchers_count": 0,
        "language": None,
        "has_issues": True,
        "has_projects": False,
        "has_downloads": True,
        "has_wiki": False,
        "has_pages": False,
        "has_discussions": False,
        "forks_count": forks,
        "archived": found.archived,
        "disabled": False,
        "open_issues_count": open_issues,
        "license": None,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "visibility": "private" if found.private else "public",
        "forks": forks,
        "open_issues": open_issues,
        "watchers": 0,
        "default_branch": found.default_branch,
        "created_at": found.created_at,
        "updated_at": found.pushed_at,
        "pushed_at": found.pushed_at,
    }
    return shape if level is None else {**shape, "permissions": permissions(level)}


def minimal_repository(hub: Hub, found: Repository) -> Json:
    """A repository as workflow runs show it: who it is and where its parts are."""
    shape = repository(hub, found)
    plain = ("id", "node_id", "name", "full_name", "private", "owner", "html_url", "description", "fork", "url")
    return {field: shape[field] for field in (*plain, *_TEMPLATES)}


def full_repository(hub: Hub, found: Repository, *, level: str) -> Json:
    """A repository as its own page shows it."""
    parent = hub.store.get(Repository, found.fork_of_id) if found.fork_of_id else None
    family = {"parent": repository(hub, parent), "source": repository(hub, parent)} if parent else {}
    return {
        **repository(hub, found, level=level),
        "allow_squash_merge": True,
        "allow_merge_commit": True,
        "allow_rebase_merge": True,
        "allow_auto_merge": False,
        "delete_branch_on_merge": False,
        "subscribers_count": 0,
        "network_count": 0,
        **family,
    }
