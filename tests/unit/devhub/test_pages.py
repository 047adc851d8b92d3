"""What a person sees and clicks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from app.devhub.pages.markdown import render
from tests.support import loopback
from tests.support.github_scene import NAME, OWNER, Scene

HERE = f"/{OWNER}/{NAME}"


@pytest.fixture
def browser(scene: Scene) -> Iterator[httpx.Client]:
    with loopback.Client(base_url=scene.hub.url, follow_redirects=True) as client:
        client.post("/_devhub/user", data={"login": "alice", "back": "/"})
        yield client


def test_a_person_opens_an_issue_labels_it_and_comments(scene: Scene, browser: httpx.Client) -> None:
    page = browser.post(f"{HERE}/issues/new", data={"title": "It breaks", "body": "a\r\nb"})
    assert page.url.path == f"{HERE}/issues/1"
    browser.post(f"{HERE}/issues/1/label", data={"name": "agent"})
    page = browser.post(f"{HERE}/issues/1/comment", data={"body": "/agent fix **now**"})
    assert "<strong>now</strong>" in page.text
    issue = scene.repo.issue(1)
    assert (issue.author, issue.body, issue.labels) == ("alice", "a\nb", ("agent",))
    browser.post(f"{HERE}/issues/1/unlabel", data={"name": "agent"})
    browser.post(f"{HERE}/issues/1/state")
    assert (scene.repo.issue(1).labels, scene.repo.issue(1).state) == ((), "closed")


def test_a_pull_request_shows_its_text_checks_and_difference_and_is_merged(scene: Scene, browser: httpx.Client) -> None:
    client = scene.as_installation()
    issue = scene.repo.open_issue("It counts all but one")
    sha = scene.repo.commit({"src/widget.py": "def total(items):\n    return sum(items)\n"}, branch="topic")
    number = scene.repo.open_pull("Count <all> items", head="topic", body=f"Fixes #{issue}\n\n<details>more</details>")
    client.rest.checks.create(
        OWNER,
        NAME,
        name="graftsmith",
        head_sha=sha,
        conclusion="success",
        output={"title": "Proven", "summary": "**1**"},
    )
    page = browser.get(f"{HERE}/pull/{number}").text
    assert "Count &lt;all&gt; items" in page
    assert f'href="{HERE}/issues/{issue}"' in page
    assert "Proven" in page and "<strong>1</strong>" in page
    assert "+    return sum(items)" in page and "−    return sum(items[1:])" in page
    assert browser.get(f"{HERE}/pull/{number}.diff").text.startswith("diff --git")
    assert browser.get(f"{HERE}/issues/{number}").url.path == f"{HERE}/pull/{number}"
    assert "Request changes" in page
    reviewed = browser.post(f"{HERE}/pull/{number}/review", data={"body": "Shorter, **please**"})
    assert "<strong>please</strong>" in reviewed.text
    assert [review.state for review in scene.repo.reviews(number)] == ["CHANGES_REQUESTED"]
    (opened,) = re.findall(r'href="([^"]*side=RIGHT[^"]*line=2)#remark"', page)
    hidden = dict(
        re.findall(r'type="hidden" name="(path|side|line)" value="([^"]*)"', browser.get(unescape(opened)).text)
    )
    assert hidden == {"path": "src/widget.py", "side": "RIGHT", "line": "2"}
    remarked = browser.post(f"{HERE}/pull/{number}/remark", data={**hidden, "body": "Why **all**?"})
    assert "on src/widget.py, line 2" in remarked.text and "<strong>all</strong>" in remarked.text
    assert browser.post(f"{HERE}/pull/{number}/remark", data={**hidden, "line": "99", "body": "x"}).status_code == 422
    merged = browser.post(f"{HERE}/pull/{number}/merge")
    assert "Merged" in merged.text
    assert scene.repo.pull(number).merged
    assert scene.repo.issue(issue).state == "closed"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        HERE,
        f"{HERE}/issues",
        f"{HERE}/pulls",
        f"{HERE}/issues/new",
        f"{HERE}/tree/main/src",
        f"{HERE}/blob/main/src/widget.py",
        f"{HERE}/raw/main/README.md",
        f"{HERE}/commit/main",
        "/_devhub/style.css",
        "/_devhub/avatar/1001.svg",
    ],
)
def test_every_page_is_there(browser: httpx.Client, path: str) -> None:
    assert browser.get(path).status_code == 200


@pytest.mark.parametrize(
    "path", ["/nobody/nothing", f"{HERE}/issues/9", f"{HERE}/pull/9", f"{HERE}/blob/main/no", "/x"]
)
def test_what_is_not_there_is_not_found(browser: httpx.Client, path: str) -> None:
    assert browser.get(path).status_code == 404


def test_who_may_not_does_not(scene: Scene, browser: httpx.Client) -> None:
    scene.repo.open_issue("It breaks")
    scene.hub.user("stranger")
    browser.post("/_devhub/user", data={"login": "stranger", "back": "/"})
    assert browser.post(f"{HERE}/issues/1/label", data={"name": "agent"}).status_code == 404
    scene.repo.permit("stranger", "read")
    refused = browser.post(f"{HERE}/issues/1/label", data={"name": "agent"})
    assert refused.status_code == 403 and "choose another person" in refused.text
    assert f'href="{HERE}/issues/1">Back' in refused.text
    assert scene.repo.issue(1).labels == ()


def test_pages_load_and_run_nothing_from_elsewhere(scene: Scene, browser: httpx.Client) -> None:
    scene.repo.open_issue("x", "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> [a](javascript:alert(1))")
    page = browser.get(f"{HERE}/issues/1")
    assert not re.search(r"<script|<[^>]* on\w+=|<[^>]*javascript:", page.text)
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src" not in policy


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a\nb", "<p>a<br>\nb</p>\n"),
        (
            "`#1` and #2",
            '<p><code>#1</code> and <a href="/o/r/issues/2" rel="nofollow noopener noreferrer">#2</a></p>\n',
        ),
        ("a#3 &#35; x/#4", "<p>a#3 # x/#4</p>\n"),
        ("- [x] done", '<ul>\n<li><input type="checkbox" disabled="" checked=""> done</li>\n</ul>\n'),
        ("<style>p{}</style><b style='x'>b</b>", "<b>b</b>"),
        (None, ""),
    ],
)
def test_markdown_is_rendered_safely(text: str | None, html: str) -> None:
    assert render(text, "/o/r") == html
