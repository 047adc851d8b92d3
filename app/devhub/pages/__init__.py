"""The pages that a person reads and clicks: repositories, issues, pull requests.

A page acts as the person chosen in the header (a cookie). There are no accounts: whoever reaches the port is trusted,
other web sites are not (``_same_site``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from app.devhub import auth, checks, issues, pulls, refs
from app.devhub.errors import Refused, not_found
from app.devhub.git import EMPTY_TREE
from app.devhub.hub import Hub
from app.devhub.pages import views
from app.devhub.pages.markdown import render
from app.devhub.records import CheckRun, Issue, Label, Pull, Repository, User
from app.devhub.shapes import pulls as shapes
from app.devhub.shapes.commits import shown

FOLDER = Path(__file__).parent
COOKIE = "devhub_user"
SAFE = {
    # Text of strangers is shown here; nothing is loaded from elsewhere and nothing runs.
    "content-security-policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
SUGGESTED_LABEL = "agent"


class Pages:
    """The pages of a hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._templates = Environment(
            loader=FileSystemLoader(FOLDER / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters["time"] = lambda at: at.replace("T", " ").removesuffix("Z")

    def routes(self) -> list[Route]:
        repo, issue, pull = (
            "/{owner}/{repo}",
            "/{owner}/{repo}/issues/{number:int}",
            "/{owner}/{repo}/pull/{number:int}",
        )
        return [
            Route("/", self.home),
            Route("/_devhub/style.css", self.style),
            Route("/_devhub/avatar/{id:int}.svg", self.avatar),
            Route("/_devhub/user", self.choose_user, methods=["POST"]),
            Route(f"{checks.DOWNLOADS}{{id:int}}", self.artifact),
            Route(repo, self.repository),
            Route(f"{repo}/issues", self.issues),
            Route(f"{repo}/issues/new", self.new_issue),
            Route(f"{repo}/issues/new", self.open_issue, methods=["POST"]),
            Route(f"{repo}/pulls", self.pulls),
            Route(issue, self.issue),
            Route(f"{repo}/pull/{{number:int}}.diff", self.diff),
            Route(pull, self.pull),
            *(
                Route(f"{path}/{action}", getattr(self, action), methods=["POST"])
                for path in (issue, pull)
                for action in ("comment", "label", "unlabel", "state")
            ),
            Route(f"{pull}/merge", self.merge, methods=["POST"]),
            Route(f"{repo}/commit/{{sha}}", self.commit),
            Route(f"{repo}/runs/{{id:int}}", self.check),
            Route(f"{repo}/blob/{{rest:path}}", self.blob),
            Route(f"{repo}/raw/{{rest:path}}", self.raw),
        ]

    # ── what all pages share ─────────────────────────────────────────────────────────────────────────────────────

    def _show(self, request: Request, template: str, **values: Any) -> Response:
        people = [user.login for user in self._hub.store.find(User, type="User")]
        known = {
            "people": people,
            "me": self._me(request).login if people else "",
            "watch": request.query_params.get("watch") == "1",
            "here": request.url.path,
        }
        html = self._templates.get_template(template).render(**known, **values)
        return HTMLResponse(html, headers=SAFE)

    def _me(self, request: Request) -> User:
        """The person that this browser acts as: the chosen one, or the first."""
        chosen = self._hub.user(request.cookies.get(COOKIE, ""))
        people = self._hub.store.find(User, type="User")
        if chosen is not None and chosen.type == "User":
            return chosen
        if not people:
            raise Refused(404, "There is nobody here yet.")
        return people[0]

    def _repository(self, request: Request) -> Repository:
        found = self._hub.repository(request.path_params["owner"], request.path_params["repo"])
        if found is None:
            raise not_found()
        return found

    def _issue(self, request: Request) -> Issue:
        return issues.numbered(self._hub, self._repository(request), request.path_params["number"])

    def _acting(self, request: Request, level: str) -> auth.Actor:
        """The person as a caller, if they may do what needs ``level``."""
        actor, repository = auth.Actor(self._me(request)), self._repository(request)
        auth.require(self._hub.store, actor, repository, (), level)
        issues.writable(repository)
        return actor

    @staticmethod
    async def _form(request: Request) -> dict[str, str]:
        return {name: value for name, value in (await request.form()).items() if isinstance(value, str)}

    def _back(self, request: Request) -> Response:
        """To the page whose button was pressed."""
        return RedirectResponse(request.url.path.rsplit("/", 1)[0], 303)

    def _about(self, repository: Repository) -> dict[str, Any]:
        found = self._hub.store.find(Issue, repository_id=repository.id, state="open")
        return {
            "repo": self._hub.full_name(repository),
            "private": repository.private,
            "open_issues": sum(not issue.is_pull for issue in found),
            "open_pulls": sum(issue.is_pull for issue in found),
        }

    # ── files of ours ────────────────────────────────────────────────────────────────────────────────────────────

    def style(self, request: Request) -> Response:
        return Response(
            (FOLDER / "style.css").read_bytes(), media_type="text/css", headers={"cache-control": "no-cache"}
        )

    def avatar(self, request: Request) -> Response:
        user = self._hub.store.first(User, id=request.path_params["id"])
        if user is None:
            raise not_found()
        hue, letter = user.id * 67 % 360, user.login[:1].upper()
        svg = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 40"><rect width="40" height="40" rx="20" '
            f'fill="hsl({hue} 45% 45%)"/><text x="20" y="27" font-family="sans-serif" font-size="20" fill="#fff" '
            f'text-anchor="middle">{letter if letter.isalnum() else "?"}</text></svg>'
        )
        return Response(svg, media_type="image/svg+xml", headers=SAFE)

    def artifact(self, request: Request) -> Response:
        until, key = request.query_params.get("until", ""), request.query_params.get("key", "")
        number = int(until) if until.isascii() and until.isdigit() else 0
        found = checks.downloaded(self._hub, request.path_params["id"], number, key)
        if found is None:
            raise Refused(403, "The link is wrong or no longer good.")
        return Response(found.content, media_type="application/zip")

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def home(self, request: Request) -> Response:
        found = self._hub.store.find(Repository)
        return self._show(request, "home.html", repositories=[self._about(repository) for repository in found])

    def repository(self, request: Request) -> Response:
        repository = self._repository(request)
        git = self._hub.git(repository)
        head = git.resolve(f"{refs.HEADS}{repository.default_branch}")
        entries = sorted(git.tree(head), key=lambda entry: (entry.type != "tree", entry.path)) if head else []
        readme = next((entry for entry in entries if entry.path.lower() == "readme.md"), None)
        text = git.read_blob(readme.sha).decode("utf-8", "replace") if readme else ""
        return self._show(
            request,
            "repository.html",
            **self._about(repository),
            branch=repository.default_branch,
            branches=len(git.refs(refs.HEADS)),
            last=views.commit(self._hub, repository, head) if head else None,
            entries=[(shown(entry.path), quote(shown(entry.path)), entry.type) for entry in entries],
            readme=render(text),
            clone_url=self._hub.web(f"/{self._hub.full_name(repository)}.git"),
        )

    def issues(self, request: Request) -> Response:
        return self._list(request, pulls_wanted=False)

    def pulls(self, request: Request) -> Response:
        return self._list(request, pulls_wanted=True)

    def _list(self, request: Request, *, pulls_wanted: bool) -> Response:
        repository = self._repository(request)
        found = self._hub.store.find(Issue, repository_id=repository.id, is_pull=pulls_wanted)
        return self._show(
            request,
            "list.html",
            **self._about(repository),
            kind="pulls" if pulls_wanted else "issues",
            lines=[views.line(self._hub, issue) for issue in reversed(found)],
        )

    def new_issue(self, request: Request) -> Response:
        return self._show(request, "new_issue.html", **self._about(self._repository(request)))

    def issue(self, request: Request) -> Response:
        issue = self._issue(request)
        if issue.is_pull:
            return RedirectResponse(f"{request.url.path.rsplit('/', 2)[0]}/pull/{issue.number}")
        return self._show(request, "issue.html", **self._about(self._repository(request)), **self._thread(issue))

    def _thread(self, issue: Issue) -> dict[str, Any]:
        """What the pages of an issue and of a pull request have in common."""
        known = self._hub.store.find(Label, repository_id=issue.repository_id)
        on = {label.name for label in issues.labels_of(self._hub, issue)}
        return {
            "line": views.line(self._hub, issue),
            "posts": views.conversation(self._hub, issue),
            "others": sorted(({label.name for label in known} | {SUGGESTED_LABEL}) - on),
            "locked": issue.locked,
        }

    def pull(self, request: Request) -> Response:
        repository, issue = self._repository(request), self._issue(request)
        pull = pulls.numbered(self._hub, repository, issue.number)
        return self._show(
            request,
            "pull.html",
            **self._about(repository),
            **self._thread(issue),
            head=pull.head_ref,
            base=pull.base_ref,
            commits=views.commits(self._hub, pull),
            checks=views.checks(self._hub, repository, pull.head_sha),
            files=views.files(shapes.files_of(self._hub, pull)),
            mergeable=views.mergeable(self._hub, pull),
        )

    def diff(self, request: Request) -> Response:
        repository = self._repository(request)
        pull: Pull = pulls.numbered(self._hub, repository, request.path_params["number"])
        git = self._hub.git(repository)
        start = git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
        return Response(git.patch(start, pull.head_sha), media_type="text/plain; charset=utf-8", headers=SAFE)

    def commit(self, request: Request) -> Response:
        repository = self._repository(request)
        git = self._hub.git(repository)
        sha = git.resolve(request.path_params["sha"])
        if sha is None:
            raise not_found()
        found = git.commit(sha)
        start = found.parents[0] if found.parents else EMPTY_TREE
        return self._show(
            request,
            "commit.html",
            **self._about(repository),
            commit=views.commit(self._hub, repository, sha),
            message=shown(found.message).partition("\n")[2].strip(),
            files=views.files(git.diff(start, sha)),
        )

    def check(self, request: Request) -> Response:
        repository = self._repository(request)
        run = self._hub.store.first(CheckRun, id=request.path_params["id"], repository_id=repository.id)
        if run is None:
            raise not_found()
        return self._show(request, "check.html", **self._about(repository), check=views.check(run), sha=run.head_sha)

    def blob(self, request: Request) -> Response:
        repository = self._repository(request)
        path, content = self._content(request, repository)
        text = None if b"\0" in content[:8000] else content.decode("utf-8", "replace")
        return self._show(request, "blob.html", **self._about(repository), path=path, text=text)

    def raw(self, request: Request) -> Response:
        _, content = self._content(request, self._repository(request))
        return Response(content, media_type="text/plain; charset=utf-8", headers=SAFE)

    def _content(self, request: Request, repository: Repository) -> tuple[str, bytes]:
        """The file behind ``revision/path``; a revision may have slashes itself."""
        git, parts = self._hub.git(repository), request.path_params["rest"].split("/")
        for cut in range(1, len(parts)):
            sha = git.resolve("/".join(parts[:cut]))
            path = "/".join(parts[cut:])
            entry = git.at(sha, path) if sha else None
            if entry and entry.type == "blob":
                return path, git.read_blob(entry.sha)
        raise not_found()

    # ── acting ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def choose_user(self, request: Request) -> Response:
        form = await self._form(request)
        back = form.get("back", "/")
        response = RedirectResponse(back if back.startswith("/") and not back.startswith("//") else "/", 303)
        response.set_cookie(COOKIE, form.get("login", ""), httponly=True, samesite="strict")
        return response

    async def open_issue(self, request: Request) -> Response:
        form = await self._form(request)
        with self._hub.store.transaction():
            actor, repository = self._acting(request, "read"), self._repository(request)
            issue = issues.open_issue(
                self._hub, repository, actor, title=form.get("title", ""), body=_lines(form.get("body", ""))
            )
        return RedirectResponse(f"/{self._hub.full_name(repository)}/issues/{issue.number}", 303)

    async def comment(self, request: Request) -> Response:
        form = await self._form(request)
        with self._hub.store.transaction():
            actor = self._acting(request, "read")
            issues.comment(self._hub, self._issue(request), actor, _lines(form.get("body", "")))
        return self._back(request)

    async def label(self, request: Request) -> Response:
        form = await self._form(request)
        with self._hub.store.transaction():
            actor = self._acting(request, "triage")
            issues.add_labels(self._hub, self._issue(request), actor, [form.get("name", "")])
        return self._back(request)

    async def unlabel(self, request: Request) -> Response:
        form = await self._form(request)
        with self._hub.store.transaction():
            actor, issue = self._acting(request, "triage"), self._issue(request)
            on = [label for label in issues.labels_of(self._hub, issue) if label.name == form.get("name")]
            issues.remove_labels(self._hub, issue, actor, on)
        return self._back(request)

    async def state(self, request: Request) -> Response:
        with self._hub.store.transaction():
            actor, issue = self._acting(request, "triage"), self._issue(request)
            if issue.state == "open":
                issues.close(self._hub, issue, actor)
            else:
                issues.reopen(self._hub, issue, actor)
        return self._back(request)

    async def merge(self, request: Request) -> Response:
        with self._hub.store.transaction():
            actor, repository = self._acting(request, "write"), self._repository(request)
            pull = pulls.numbered(self._hub, repository, request.path_params["number"])
            refs.merge_pull(self._hub, pull, actor)
        return self._back(request)


def _lines(text: str) -> str:
    """Forms send CRLF; texts have LF."""
    return text.replace("\r\n", "\n")


def _same_site(request: Request) -> bool:
    """Whether a form comes from our own page: browsers say where a form was."""
    if request.method in ("GET", "HEAD"):
        return True
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def pages(hub: Hub) -> ASGIApp:
    """The pages of a hub as an ASGI application."""
    router = Router(Pages(hub).routes())

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if not _same_site(Request(scope)):
                raise Refused(403, "This form came from another site.")
            await router(scope, receive, send)
        except Refused as refused:
            text = f"{refused.status} {refused}\n"
            await PlainTextResponse(text, refused.status, headers=SAFE)(scope, receive, send)

    return app
