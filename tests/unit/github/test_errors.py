"""Each refusal of GitHub names who must act."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from agent.errors import OperatorError, RetryLater, UserError
from app.github.api import path
from app.github.errors import AnswerLost, CredentialsRefused, NotFound, PermissionMissing, Rejected, Reply, to_error

NOW = 1_900_000_000.0


def reply(
    status: int, message: str = "", method: str = "POST", url: str = "/repos/a/b/issues/1/comments", **headers: str
) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(method, url, status, named, {"message": message})


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (reply(403, "Resource not accessible by integration"), PermissionMissing, "issues: write"),
        (
            reply(403, "Resource not accessible by integration", "GET", "/repos/a/b/pulls/1"),
            PermissionMissing,
            "pull_requests: read",
        ),
        (
            reply(403, "Resource not accessible by integration", x_accepted_github_permissions="checks=write; x=read"),
            PermissionMissing,
            "checks: write",
        ),
        (reply(403, "You have exceeded a secondary rate limit"), RetryLater, "limits"),
        (reply(403, "API rate limit exceeded", x_ratelimit_remaining="0"), RetryLater, "limits"),
        (reply(403, "You have triggered an abuse detection mechanism"), RetryLater, "limits"),
        (reply(403, "Forbidden", retry_after="5"), RetryLater, "limits"),
        (reply(429, ""), RetryLater, "limits"),
        (reply(403, "Repository was archived so is read-only."), UserError, "archived"),
        (reply(403, "This installation has been suspended"), OperatorError, "suspended"),
        (reply(404, "Not Found"), NotFound, "issues/1"),
        (reply(410, "Issues are disabled"), NotFound, "disabled"),
        (reply(404, "Not Found"), NotFound, "needs to write a comment"),
        (reply(422, "Validation Failed"), Rejected, "refused to let the App write a comment. Validation"),
        (reply(409, "Git Repository is empty."), Rejected, "empty"),
        (reply(403, "Something new"), Rejected, "refused to let the App write a comment. Something"),
        (reply(451, "Repository access blocked"), UserError, "legal reasons"),
        (reply(502, "", "GET"), RetryLater, "502"),
        (reply(502, ""), AnswerLost, "502"),
        (reply(401, "Bad credentials"), CredentialsRefused, "PRIVATE_KEY"),
        (reply(401, "'Issued at' claim ('iat') must be an Integer"), CredentialsRefused, "clock is wrong"),
        (reply(401, "'Expiration time' claim ('exp') is too far in the future"), CredentialsRefused, "clock is wrong"),
    ],
)
def test_each_refusal_names_who_must_act(answer: Reply, kind: type[Exception], words: str) -> None:
    error = to_error(answer, "write a comment", NOW)
    assert isinstance(error, kind) and words in str(error)


@pytest.mark.parametrize(("skew", "words"), [(1200.0, "20 minutes ahead of"), (-1200.0, "20 minutes behind")])
def test_a_wrong_clock_is_told_by_the_date_of_the_answer(skew: float, words: str) -> None:
    answer = reply(401, "'Issued at' claim ('iat') must be …", date=formatdate(NOW - skew, usegmt=True))
    assert words in str(to_error(answer, "sign in", NOW))


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": formatdate(NOW + 30, usegmt=True)}, 30.0),
        ({"retry_after": "soon"}, 60.0),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(int(NOW) + 100)}, 101.0),
        ({"x_ratelimit_remaining": "0", "x_ratelimit_reset": "never"}, 60.0),
        ({"retry_after": "999999"}, 3600.0),
    ],
)
def test_the_wait_is_what_the_answer_asks_for(headers: dict[str, str], wait: float) -> None:
    error = to_error(reply(429, "rate limit", **headers), "read", NOW)
    assert isinstance(error, RetryLater) and error.after_s == wait


def test_the_details_of_a_refusal_are_kept() -> None:
    body = {
        "message": "Validation Failed",
        "errors": [{"resource": "PullRequest", "code": "custom", "message": "No commits between a and b"}],
    }
    assert "No commits between" in Reply("POST", "/x", 422, {}, body).message
    assert Reply("POST", "/x", 502, {}, None).message == "status 502"


def test_parts_of_a_path_are_encoded_and_slashes_stay() -> None:
    assert path("/git/ref/heads/{name}", name="feature/AB#1992-x") == "/git/ref/heads/feature/AB%231992-x"
    assert path("/git/ref/heads/{name}", name="é/../a?b") == "/git/ref/heads/%C3%A9/%2E%2E/a%3Fb"
