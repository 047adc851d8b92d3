"""JUnit files of every quality."""

from __future__ import annotations

import tracemalloc

import pytest

from agent.types import TestOutcome
from agent.verify import junit
from agent.verify.report import MESSAGE_LIMIT, Entry, Unreadable, build, merge

SUITE = "<testsuites><testsuite name='s'>{}</testsuite></testsuites>"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "well-formed"),
        (b"\xff\xfe\x00", "well-formed"),
        (b"<testsuites>", "well-formed"),
        (b"<html/>", "no JUnit"),
        (b"<!DOCTYPE a [<!ENTITY b 'c'>]><testsuites>&b;</testsuites>", "entities"),
        (b"<!DOCTYPE testsuites SYSTEM 'file:///etc/passwd'><testsuites/>", "entities"),
        (b"<testsuite>" * 200, "100 levels"),
        (b"<?xml version='1.0' encoding='no-such'?><testsuites/>", "well-formed"),
    ],
)
def test_what_is_no_report_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        junit.cases(data)


def test_the_size_is_bounded() -> None:
    with pytest.raises(Unreadable, match="larger than"):
        junit.cases(b" " * (junit.MAX_BYTES + 1))


def test_a_case_with_everything_around_it() -> None:
    xml = SUITE.format(
        "<properties><property name='a' value='b'/></properties>"
        "<testcase classname='c' name='t[&lt;x&gt;]' file='f.py'><properties/><failure message='m&#10;n'>m\nn\ntrace"
        "</failure><system-out>\x7f noise</system-out></testcase>"
        "<testcase classname='c' name='u'><skipped type='pytest.xfail' message='why'/></testcase>"
        "<testcase classname='c' name='v'><error message='collection failure'>boom</error></testcase>"
    )
    first, second, third = junit.cases(xml.encode())
    assert (first.name, first.file, first.outcome, first.message) == (
        "t[<x>]",
        "f.py",
        TestOutcome.FAILED,
        "m\nn\ntrace",
    )
    assert second.outcome is TestOutcome.XFAILED
    assert (third.outcome, third.kind, third.message) == (
        TestOutcome.ERROR,
        "collection failure",
        "collection failure\nboom",
    )


def test_a_message_that_the_trace_repeats_is_said_once() -> None:
    head, body = (
        "assert 1 == 2&#10; +  where 1 = f()",
        "&gt;       assert f() == 2\nE       assert 1 == 2\nE        +  where 1 = f()",
    )
    xml = SUITE.format(f"<testcase name='t'><failure message='{head}'>{body}</failure></testcase>")
    (case,) = junit.cases(xml.encode())
    assert case.message.count("assert 1 == 2") == 1
    (case,) = junit.cases(xml.replace("1 == 2&#10;", "1 == 3&#10;").encode())
    assert case.message.startswith("assert 1 == 3\n")


def test_many_cases_take_no_more_memory_than_their_outcomes() -> None:
    xml = SUITE.format("<testcase classname='c' name='t'><system-out>" + "x" * 1000 + "</system-out></testcase>")
    body = xml[xml.index("<testcase") : xml.index("</testsuite>")]
    assert len(junit.cases(SUITE.format(body * 2000).encode())) == 2000


@pytest.mark.parametrize(
    "within", ["{}", "<testcase name='t'>{}</testcase>", "<testcase name='t'><failure>{}</failure></testcase>"]
)
@pytest.mark.parametrize("one", ["<odd/>", "<failure/>", "<odd><failure/></odd>"])
def test_what_nobody_reads_is_not_kept(within: str, one: str) -> None:
    data = SUITE.format(within.format(one * 30_000)).encode()
    tracemalloc.start()
    junit.cases(data)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5 * len(data)


def test_a_failure_of_any_length_is_read_in_bounded_time() -> None:
    head, body = "zz&#10;" * 100_000, "a" * 10_000_000 + "zz"
    (case,) = junit.cases(
        SUITE.format(f"<testcase name='t'><failure message='{head}'>{body}</failure></testcase>").encode()
    )
    assert case.message.endswith("zz")


def test_the_worst_that_is_said_of_a_test_counts() -> None:
    passed, failed = Entry("t", TestOutcome.PASSED), Entry("t", TestOutcome.FAILED, "x" * 10_000)
    for order in ([passed, failed], [failed, passed]):
        found = build(order)
        assert found.outcomes == {"t": TestOutcome.FAILED}
        assert len(found.messages["t"]) < MESSAGE_LIMIT + 100
    merged = merge([build([passed]), build([failed])])
    assert merged.failed == {"t"}
