"""One request to a page: where it is, who it acts as, how it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.devhub import auth, issues
from app.devhub.errors import Moved, Refused, known
from app.devhub.hub import Hub
from app.devhub.records import Issue, Repository, User

COOKIE = "devhub_user"
SAFE = {
    # Text of strangers is shown here; nothing is loaded from elsewhere and nothing runs.
    "content-security-policy": "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Visit:
    """A request, as a page sees it."""

    hub: Hub
    templates: Environment
    request: Request

    def part(self, name: str) -> Any:
        """A value out of the path."""
        return self.request.path_params[name]

    def people(self) -> list[User]:
        return self.hub.store.find(User, type="User")

    def me(self) -> User:
        """The person that this browser acts as: the chosen one, or the first."""
        chosen = self.hub.user(self.request.cookies.get(COOKIE, ""))
        if chosen is not None and chosen.type == "User":
            return chosen
        if not self.people():
            raise Refused(404, "There is nobody here yet.")
        return self.people()[0]

    def acting(self, level: str) -> auth.Actor:
        """The person as a caller, if they may do what needs ``level`` here."""
        actor, repository = auth.Actor(self.me()), self.repository()
        auth.require(self.hub.store, actor, repository, (), level)
        issues.writable(repository)
        return actor

    def repository(self) -> Repository:
        owner, name = self.part("owner"), self.part("repo")
        found = self.hub.repository(owner, name)
        if found is None:
            renamed = known(self.hub.renamed(owner, name))
            raise Moved(f"/{self.hub.full_name(renamed)}{self.request.url.path[len(f'/{owner}/{name}') :]}")
        return found

    def issue(self) -> Issue:
        return issues.numbered(self.hub, self.repository(), self.part("number"))

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        known = {
            "people": [user.login for user in self.people()],
            "me": self.me().login if self.people() else "",
            "watch": self.request.query_params.get("watch") == "1",
            "here": self.request.url.path,
        }
        return HTMLResponse(self.templates.get_template(template).render({**known, **values}), status, headers=SAFE)

    def show_in_repository(self, template: str, **values: Any) -> Response:
        """A page below the repository's own head line."""
        return self.show(template, **repository_facts(self.hub, self.repository()), **values)

    def refused(self, refused: Refused) -> Response:
        """What a person is told who may not, or asks for what is not there."""
        path, pressed = self.request.url.path, self.request.method == "POST"
        may_not = refused.status in (401, 403, 404) and pressed
        advice = "Whether somebody may do this depends on who they are: choose another person above." if may_not else ""
        here = path.rsplit("/", 1)[0] if pressed else "/"
        told = f"{refused.status} {refused}"
        return self.show("refused.html", refused.status, told=told, advice=advice, here=here, watch=False)

    def back(self) -> Response:
        """To the page whose button was pressed."""
        return RedirectResponse(self.request.url.path.rsplit("/", 1)[0], 303)


def repository_facts(hub: Hub, repository: Repository) -> dict[str, Any]:
    """What every page of a repository says of it."""
    found = hub.store.find(Issue, repository_id=repository.id, state="open")
    return {
        "repo": hub.full_name(repository),
        "private": repository.private,
        "open_issues": sum(not issue.is_pull for issue in found),
        "open_pulls": sum(issue.is_pull for issue in found),
    }
