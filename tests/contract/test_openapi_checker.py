"""The checker finds what GitHub's description forbids, and every operation of the stand-in is described."""

from __future__ import annotations

import pytest

from app.devhub.routes import OPERATIONS
from tests.support.openapi import Checked, Description

REPO = "/repos/acme/widget"


@pytest.fixture
def described(github_description: Description | None) -> Description:
    if github_description is None:
        pytest.skip("GitHub's own description is not here; see the summary")
    return github_description


def asked(described: Description, method: str, path: str, body: bytes = b"", query: str = "") -> list[str]:
    found = described.find(method, path)
    assert found is not None
    operation, values = found
    return list(operation.request_faults(values, query, body))


def answered(described: Description, method: str, path: str, status: int, body: bytes) -> list[str]:
    found = described.find(method, path)
    assert found is not None
    return list(found[0].response_faults(status, "application/json; charset=utf-8", body))


def test_every_operation_of_the_stand_in_is_one_of_githubs(described: Description) -> None:
    for operation in OPERATIONS:
        path = operation.path.replace(":path}", "}")
        found = described.find(operation.method, path.replace("{", "").replace("}", ""))
        assert found is not None, operation.path
        whole = f"{path}/{{path}}" if path.endswith("/contents") else path
        assert found[0].name == f"{operation.method} {whole}"


@pytest.mark.parametrize(
    ("method", "path", "operation"),
    [
        ("GET", f"{REPO}/git/ref/heads/feature/x", "GET /repos/{owner}/{repo}/git/ref/{ref}"),
        ("GET", f"{REPO}/commits/feature/x/check-runs", "GET /repos/{owner}/{repo}/commits/{ref}/check-runs"),
        ("GET", f"{REPO}/contents/src/a.py", "GET /repos/{owner}/{repo}/contents/{path}"),
        ("GET", f"{REPO}/issues/comments/7", "GET /repos/{owner}/{repo}/issues/comments/{comment_id}"),
        ("GET", "/repositories/7/issues/2", "GET /repos/{owner}/{repo}/issues/{issue_number}"),
    ],
)
def test_a_request_is_matched_to_the_most_literal_operation(
    described: Description, method: str, path: str, operation: str
) -> None:
    found = described.find(method, path)
    assert found is not None and found[0].name == operation


def test_an_undescribed_path_is_no_operation(described: Description) -> None:
    assert described.find("GET", "/nonsense/x") is None


def test_faults_of_requests_are_named(described: Description) -> None:
    assert "'title' is a required property" in asked(described, "POST", f"{REPO}/issues", b"{}")[0]
    assert "titel" in asked(described, "POST", f"{REPO}/issues", b'{"title": "x", "titel": "y"}')[0]
    assert "not JSON" in asked(described, "POST", f"{REPO}/issues", b"{")[0]
    assert "required" in asked(described, "POST", f"{REPO}/issues")[0]
    assert "per_page" in asked(described, "GET", f"{REPO}/issues", query="per_page=many")[0]
    assert "pages" in asked(described, "GET", f"{REPO}/issues", query="pages=2")[0]
    assert "issue_number" in asked(described, "GET", f"{REPO}/issues/one")[0]


def test_good_requests_have_no_faults(described: Description) -> None:
    assert asked(described, "POST", f"{REPO}/issues", b'{"title": "x", "labels": ["a", {"name": "b"}]}') == []
    assert asked(described, "GET", f"{REPO}/issues", query="state=all&per_page=100&page=2") == []
    assert asked(described, "GET", f"{REPO}/labels/123") == []


def test_faults_of_answers_are_named(described: Description) -> None:
    assert "required property" in answered(described, "GET", REPO, 200, b'{"id": 1}')[0]
    assert "is not of type" in answered(described, "GET", f"{REPO}/issues/1/labels", 200, b"{}")[0]
    assert "the status 299" in answered(described, "GET", REPO, 299, b"{}")[0]
    assert "an error has a message" in answered(described, "GET", REPO, 429, b"{}")[0]
    assert "no body" in answered(described, "GET", REPO, 200, b"")[0]


def test_fields_that_are_not_described_are_found_at_any_depth(described: Description) -> None:
    body = (
        b'{"sha": "a", "truncated": false, "tree": [{"path": "p", "mode": "m", "type": "t", "sha": "s", "colour": 1}]}'
    )
    assert any("tree[].colour" in fault for fault in answered(described, "GET", f"{REPO}/git/trees/a", 200, body))


def test_a_violation_is_kept_for_the_teardown(described: Description) -> None:
    checked = Checked(described, "/api/v3")
    scope = {"method": "GET", "raw_path": b"/api/v3/nonsense?x=1", "query_string": b"x=1"}
    checked._check(scope, b"", {"status": 404, "headers": []}, b"", False)
    checked._check(scope, b"", {"status": 501, "headers": []}, b"", False)
    assert [line.split(": ")[1] for line in checked.violations] == [
        "not in GitHub's description",
        "the stand-in has no such operation",
    ]
