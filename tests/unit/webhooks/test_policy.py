"""Which deliveries become commands; pure decisions over payloads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.jobs.types import UNWRITTEN, Command, Word
from app.webhooks.policy import Ignored, Rules, decide
from tests.unit.webhooks.payloads import (
    account,
    commented,
    commented_on_line,
    issue,
    labeled,
    pushed,
    repository,
    reviewed,
)

RULES = Rules(label="agent", allowed_bots=frozenset({"helper[bot]"}), app_id=500)


def reason(event: str, payload: object, rules: Rules = RULES) -> str:
    decision = decide(event, payload, rules)
    assert isinstance(decision, Ignored), decision
    return decision.reason


def command(event: str, payload: object) -> Command:
    decision = decide(event, payload, RULES)
    assert isinstance(decision, Command), decision
    return decision


def test_label_event_asks_for_a_fix() -> None:
    got = command("issues", labeled(sender=account("lena", 8)))
    assert (got.word, got.text, got.request, got.number, got.is_pull) == (Word.FIX, "fix", "", 12, False)
    assert (got.repository_id, got.installation_id, got.requester, got.comment_id) == (42, 99, "lena", None)
    assert got.lane == "42/12"


def test_only_the_label_that_the_event_carries_counts() -> None:
    """The issue has all four labels in each event; one of the events is about ours."""
    events = [labeled(name) for name in ("agent", "bug", "backend", "P1", "docs")]
    decisions = [decide("issues", event, RULES) for event in events]
    assert [isinstance(d, Command) for d in decisions] == [True, False, False, False, False]
    assert reason("issues", {**labeled(), "action": "opened"}) == "event not used: issues/opened"


def test_the_label_works_on_a_pull_request_too() -> None:
    label = {"label": {"name": "agent"}}
    got = command("pull_request", {**pushed(action="labeled", pull={"user": account("rita", 31)}), **label})
    assert (got.word, got.number, got.is_pull, got.requester) == (Word.FIX, 15, True, "maintainer")
    taken = command("pull_request", {**pushed(action="unlabeled"), **label})
    assert (taken.word, taken.number, taken.is_pull) == (Word.UNLABELED, 15, True)
    other = {**pushed(action="labeled"), "label": {"name": "bug"}}
    assert reason("pull_request", other) == "another label"


def test_label_names_ignore_case_as_github_does() -> None:
    assert command("issues", labeled("Agent")).word is Word.FIX


def test_the_labeller_is_the_requester_not_the_author() -> None:
    payload = labeled(sender=account("triager", 3), issue=issue(user=account("attacker", 4)))
    assert command("issues", payload).requester == "triager"


def test_comment_on_an_issue_and_on_a_pull_request() -> None:
    got = command("issue_comment", commented("Thanks!\n\n/agent fix the parser\nIt fails on tabs."))
    assert (got.text, got.request, got.comment_id) == ("fix the parser", "the parser\n\nIt fails on tabs.", 1001)
    pull = commented("/agent fix it", issue=issue(pull_request={"url": "https://example.org"}))
    assert command("issue_comment", pull).is_pull


def test_a_review_that_requests_changes_of_our_pull_request_asks_for_them() -> None:
    got = command("pull_request_review", reviewed("Names are too short.\n\n> quoted"))
    assert (got.word, got.request, got.review_id) == (Word.FIX, "Names are too short.\n\n> quoted", 3001)
    assert (got.number, got.is_pull, got.requester, got.lane) == (15, True, "maintainer", "42/15")
    assert command("pull_request_review", reviewed(None)).request == ""
    theirs = {"user": account("rita", 31)}
    assert reason("pull_request_review", reviewed("No.", pull=theirs)) == "a pull request of somebody else"
    assert reason("pull_request_review", reviewed("No.", pull={"user": None})) == "a pull request of somebody else"


@pytest.mark.parametrize("state", ["approved", "commented", "dismissed"])
def test_other_reviews_ask_only_with_a_command(state: str) -> None:
    assert reason("pull_request_review", reviewed("Well done.", state)) == "a review that asks for nothing"
    assert reason("pull_request_review", reviewed(None, state)) == "a review that asks for nothing"
    theirs = {"user": account("rita", 31), "body": "Mine"}
    got = command("pull_request_review", reviewed("Good.\n\n/agent fix the rest", state, pull=theirs))
    assert (got.word, got.request, got.review_id) == (Word.FIX, "the rest", 3001)


def test_a_comment_on_a_line_asks_with_a_command() -> None:
    got = command("pull_request_review_comment", commented_on_line("/agent fix this"))
    assert (got.request, got.comment_id, got.review_id, got.line_comment_id) == ("this", None, None, 2001)
    assert got.is_pull
    assert reason("pull_request_review_comment", commented_on_line("Why?")) == "no command in the comment"


@pytest.mark.parametrize(
    ("event", "made"), [("pull_request_review", reviewed), ("pull_request_review_comment", commented_on_line)]
)
def test_reviews_are_refused_as_comments_are(event: str, made: Any) -> None:
    asked = "/agent fix"
    bot = account("evil[bot]", 1, "Bot")
    assert reason(event, made(asked, user=bot)) == "the requester is a bot that is not allowed"
    assert "author" in reason(event, {**made(asked), "sender": account("other", 8)})
    assert reason(event, made(asked, pull={"locked": True})) == "the conversation is locked"
    assert reason(event, made(asked, installation=None)) == "no installation: not a delivery to an App"


def test_stop_has_its_own_lane_and_works_on_a_closed_issue() -> None:
    got = command("issue_comment", commented("/agent stop", issue=issue(state="closed")))
    assert (got.word, got.lane) == (Word.STOP, "42/12/stop")


@pytest.mark.parametrize("action", ["edited", "deleted"])
def test_only_new_comments_count(action: str) -> None:
    assert reason("issue_comment", commented("/agent fix", action=action)) == f"event not used: issue_comment/{action}"


@pytest.mark.parametrize(
    "who",
    [
        account("evil-app[bot]", 1, "Bot"),
        account("github-actions[bot]", 2, "Bot"),
        account("Copilot", 3, "Bot"),
        account("looks-human[bot]", 4, "User"),
        account("some-org", 5, "Organization"),
        account("HELPER[bot]", 6, "Bot"),
    ],
)
def test_bots_are_refused_unless_named(who: dict[str, Any]) -> None:
    assert reason("issue_comment", commented("/agent fix", user=who)) == "the requester is a bot that is not allowed"
    assert reason("issues", labeled(sender=who)) == "the requester is a bot that is not allowed"


def test_a_named_bot_may_ask() -> None:
    assert command("issue_comment", commented("/agent fix", user=account("helper[bot]", 6, "Bot"))).requester_id == 6


def test_our_own_words_never_start_us() -> None:
    own = commented("/agent fix", user=account("graftsmith[bot]", 1, "Bot"))
    assert reason("issue_comment", own) == "the requester is a bot that is not allowed"
    # Neither when the operator has put us on the list, nor when we wrote in a person's name.
    own = commented("/agent fix", user=account("helper[bot]", 1, "Bot"))
    own["comment"]["performed_via_github_app"] = {"id": 500, "slug": "graftsmith"}
    assert reason("issue_comment", own) == "our own comment"
    # A person who writes through somebody else's App is that person.
    own["comment"]["performed_via_github_app"] = {"id": 501, "slug": "another"}
    assert command("issue_comment", own).requester_id == 1


def test_sender_and_author_must_agree() -> None:
    payload = commented("/agent fix", sender=account("somebody-else", 8))
    assert reason("issue_comment", payload) == "the sender is not the comment's author"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (labeled(issue=issue(locked=True)), "the conversation is locked"),
        (labeled(repository=repository(archived=True)), "the repository is archived or disabled"),
        (labeled(repository=repository(disabled=True)), "the repository is archived or disabled"),
        (labeled(installation=None), "no installation: not a delivery to an App"),
    ],
)
def test_places_where_nothing_is_started(payload: dict[str, Any], expected: str) -> None:
    assert reason("issues", payload) == expected


def test_commands_we_do_not_know() -> None:
    assert [command("issue_comment", commented(f"/agent{text}")).word for text in (" dance", "")] == [Word.HELP] * 2


@pytest.mark.parametrize(
    ("event", "payload", "expected"),
    [
        ("issues", [], "malformed payload: not an object"),
        ("issues", None, "malformed payload: not an object"),
        ("issues", {}, "event not used: issues"),
        ("issues", {"action": 7}, "event not used: issues"),
        ("issues", {"action": ["labeled"]}, "event not used: issues"),
        ("issues", {"action": "labeled"}, "malformed payload: sender: Field required"),
        ("issues", labeled(sender=None), "malformed payload: sender: "),
        ("issues", labeled(sender=account(number=2**70)), "malformed payload: sender.id: "),
        ("issues", labeled(issue=issue(number="12")), "malformed payload: issue.number: "),
        ("issues", labeled(issue=issue(number=float("inf"))), "malformed payload: issue.number: "),
        ("issues", labeled(issue=issue(number=True)), "malformed payload: issue.number: "),
        ("issue_comment", commented("/agent fix \ud800"), "malformed payload: comment.body: "),
        ("issues", labeled("\udfff"), "malformed payload: label.name: "),
        ("issue_comment", labeled(), "event not used: issue_comment/labeled"),
        ("issue_comment", {**labeled(), "action": "created"}, "malformed payload: comment: Field required"),
        ("nonsense", labeled(), "event not used: nonsense/labeled"),
        ("push", {"ref": "refs/heads/main"}, "event not used: push"),
        ("ping", {"zen": "Keep it simple"}, "event not used: ping"),
    ],
)
def test_odd_payloads_are_dropped_with_a_reason(event: str, payload: object, expected: str) -> None:
    assert reason(event, payload).startswith(expected)


def test_reasons_show_no_control_signs_of_strangers() -> None:
    assert reason("x", {"action": "\x1b[31m\ud800" + "a" * 500}) == "event not used: x/[31m" + "a" * 54


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(labeled())), json_values)
def test_any_value_in_any_field_is_judged_without_error(field: str, value: object) -> None:
    assert isinstance(decide("issues", labeled(**{field: value}), RULES), Command | Ignored)


def test_a_command_survives_its_json_form() -> None:
    got = command("issue_comment", commented("/agent fix ünï 🎉"))
    assert Command.model_validate_json(got.model_dump_json()) == got
    assert "🎉" in json.loads(got.model_dump_json())["text"]


# ── what is not wanted any more ──


@pytest.mark.parametrize(
    ("event", "payload", "word", "number"),
    [
        ("issues", labeled("AGENT", action="unlabeled"), Word.UNLABELED, 12),
        ("issues", labeled(action="closed", issue=issue(state="closed", locked=True)), Word.CLOSED, 12),
        ("issues", labeled(action="deleted"), Word.CLOSED, 12),
        ("pull_request", pushed(action="closed", pull={"state": "closed", "user": account()}), Word.CLOSED, 15),
    ],
)
def test_a_person_who_takes_a_wish_away_stops_what_runs(
    event: str, payload: dict[str, Any], word: Word, number: int
) -> None:
    got = command(event, {**payload, "sender": account("lena", 8)})
    assert (got.word, got.number, got.is_pull, got.requester) == (word, number, event == "pull_request", "lena")
    assert (got.lane, got.issue) == (f"42/{number}/{word.value}", f"42/{number}")


@pytest.mark.parametrize("action", ["unlabeled", "closed"])
@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"sender": account("graftsmith[bot]", 900, "Bot")}, "done by a bot: what runs goes on"),
        ({"sender": account("helper[bot]", 6, "Bot")}, "done by a bot: what runs goes on"),
        ({"installation": None}, "no installation: not a delivery to an App"),
        ({"repository": repository(archived=True)}, "the repository is archived or disabled"),
    ],
)
def test_only_a_person_takes_a_wish_away(action: str, more: dict[str, Any], expected: str) -> None:
    assert reason("issues", labeled(action=action, **more)) == expected


def test_another_label_that_goes_stops_nothing() -> None:
    assert reason("issues", labeled("bug", action="unlabeled")) == "another label"


# ── commits on pull requests of ours ──


def test_a_commit_of_somebody_else_takes_back_what_was_acknowledged() -> None:
    got = command("pull_request", pushed())
    assert (got.word, got.number, got.is_pull, got.requester) == (Word.PUSHED, 15, True, "maintainer")
    assert got.lane == "42/15/pushed"
    assert command("pull_request", pushed(sender=account("pre-commit-ci[bot]", 77, "Bot"))).word is Word.PUSHED


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (pushed(sender=account("graftsmith[bot]", 900, "Bot")), "our own commit"),
        (pushed(pull={"draft": True}), "a draft already"),
        (pushed(pull={"state": "closed"}), "closed"),
        (pushed(pull={"body": "Text"}), "a pull request of somebody else"),
        (pushed(pull={"body": None}), "a pull request of somebody else"),
        (pushed(pull={"user": account("mallory", 8)}), "a pull request of somebody else"),
        (pushed(installation=None), "no installation: not a delivery to an App"),
        (pushed(repository=repository(archived=True)), "the repository is archived or disabled"),
        (pushed(repository=repository(disabled=True)), "the repository is archived or disabled"),
        (pushed(action="opened"), "event not used: pull_request/opened"),
        (pushed(pull={"user": None}), "a pull request of somebody else"),
    ],
)
def test_other_commits_start_nothing(payload: dict[str, Any], expected: str) -> None:
    assert reason("pull_request", payload).startswith(expected)


@pytest.mark.parametrize("word", sorted(UNWRITTEN))
def test_nobody_can_write_what_only_github_says(word: Word) -> None:
    assert command("issue_comment", commented(f"/agent {word.value}")).word is Word.HELP
