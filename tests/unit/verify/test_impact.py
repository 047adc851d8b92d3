"""Which tests a change can reach, and what comes of running them first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent import judge
from agent.index.indexer import Indexer
from agent.index.source import TreeSource
from agent.measure import Measure
from agent.tools import Claim
from agent.types import Stage, SuiteStatus, TestOutcome, TestRun
from agent.verify.baseline import Baseline, Shelf
from agent.verify.flakes import Flakes
from agent.verify.impact import SYMBOLS, Use, Used, impact, restricted, run_first, used
from agent.verify.static import Linters
from tests.support.indexing import indexed
from tests.unit.verify.conftest import Bench, MakeBench

TEST = "from pkg.{0} import {0}\n\n\ndef test_{0}():\n    assert {0}() == 1\n"
FILES = {
    "pkg/__init__.py": "",
    "pkg/low.py": "def low():\n    return 1\n",
    "pkg/mid.py": "from pkg.low import low\n\n\ndef mid():\n    return low()\n",
    **{f"pkg/{name}.py": f"def {name}():\n    return 1\n" for name in "abcd"},
    **{f"tests/test_{name}.py": TEST.format(name) for name in ("low", "mid", "a", "b", "c", "d")},
}


def suite(files: tuple[str, ...], seconds: float = 60.0, **more: object) -> TestRun:
    outcomes = {f"{file}::test_{n}": TestOutcome.PASSED for file in files for n in range(10)}
    values = {"command": ("pytest",), "status": SuiteStatus.OK, "outcomes": outcomes, "seconds": seconds}
    return TestRun.model_validate(values | more)


TESTS = tuple(sorted(path for path in FILES if path.startswith("tests/")))


@pytest.fixture(scope="module")
def made(bench: MakeBench) -> Bench:
    return bench(FILES)


def first(made: Bench, changed: dict[str, str | None], baseline: TestRun) -> tuple[str, ...]:
    draft = made.draft(changed)
    before = indexed(TreeSource(made.base))
    return run_first(draft, before, indexed(TreeSource(draft), base=before), baseline)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"pkg/low.py": "def low():\n    return 2\n"}, ("tests/test_low.py", "tests/test_mid.py")),
        ({"pkg/mid.py": "def mid():\n    return 2\n"}, ("tests/test_mid.py",)),
        ({"pkg/low.py": None}, ("tests/test_low.py", "tests/test_mid.py")),
        ({"pkg/a.py": "x = 1\n", "tests/test_new.py": TEST.format("a")}, ("tests/test_a.py", "tests/test_new.py")),
        ({"tests/test_a.py": None, "pkg/a.py": None}, ()),
        ({"README.md": "x"}, ()),
        ({f"pkg/{name}.py": "x = 1\n" for name in "abcd"}, ()),  # most of the suite
    ],
)
def test_the_files_that_import_what_changed(
    made: Bench, changed: dict[str, str | None], expected: tuple[str, ...]
) -> None:
    assert first(made, changed, suite(TESTS)) == expected


def test_not_where_it_would_not_pay(made: Bench) -> None:
    changed: dict[str, str | None] = {"pkg/a.py": "x = 1\n"}
    assert first(made, changed, suite(TESTS, seconds=3.0)) == ()
    assert first(made, changed, suite(TESTS, structured=False)) == ()
    assert first(made, changed, suite(("example.com/a::TestX",))) == ()  # ids that name no file


def test_a_run_is_restricted_to_files() -> None:
    part = restricted(suite(TESTS), ("tests/test_a.py",))
    assert len(part.outcomes) == 10 and {test[:15] for test in part.outcomes} == {"tests/test_a.py"}


@contextmanager
def no_stage(stage: Stage) -> Iterator[None]:
    yield


def measure(made: Bench, folder: Path) -> Measure:
    indexer = Indexer(folder / "index.sqlite", jobs=1)
    return Measure(
        made.harness,
        Linters(made.harness, made.base),
        indexer=indexer,
        before=indexer.index(TreeSource(made.base)),
        baseline=Baseline(made.harness, made.base, Shelf(folder / "baselines")),
        flakes=Flakes(made.harness),
        events=made.events,
        stage=no_stage,
        quick_s=0.0,
    )


def test_what_the_affected_tests_show_goes_back_before_the_whole_suite(made: Bench, tmp_path: Path) -> None:
    measured = measure(made, tmp_path)
    wrong = measured(made.draft({"pkg/low.py": "def low():\n    return 2\n"}), None, to_the_end=False)
    assert wrong.final is None and wrong.affected is not None and len(wrong.affected.outcomes) == 2
    told = "\n".join(judge.of_claim(Claim.DONE, wrong, None, ("pkg/low.py",)))
    assert "`tests/test_low.py::test_low` passed before and fails now" in told and "assert 2 == 1" in told
    assert "`tests/test_mid.py::test_mid` passed before and fails now" in told

    right = measured(made.draft({"pkg/low.py": "def low():\n    return 3 - 2\n"}), None, to_the_end=False)
    assert right.affected is not None and right.affected.status is SuiteStatus.OK
    assert right.final is not None and len(right.final.outcomes) == 6
    assert right.comparison is not None and right.comparison.clean


def test_the_whole_suite_decides_when_it_comes_to_the_end(made: Bench, tmp_path: Path) -> None:
    """Also what the graph knows nothing of is found: here it is the whole suite that does."""
    draft = made.draft({"pkg/low.py": "def low():\n    return 2\n"})
    wrong = measure(made, tmp_path)(draft, None, to_the_end=True)
    assert wrong.affected is None and wrong.final is not None and len(wrong.final.outcomes) == 6


def test_what_no_import_shows_is_left_to_the_whole_suite(bench: MakeBench, tmp_path: Path) -> None:
    reads = "from pathlib import Path\n\n\ndef test_reads():\n    assert 'return 1' in Path('pkg/low.py').read_text()\n"
    made = bench({**FILES, "tests/test_reads.py": reads})
    found = measure(made, tmp_path)(
        made.draft({"pkg/low.py": "def low():\n    return 2 - 1\n"}), None, to_the_end=False
    )
    assert found.affected is not None and found.affected.status is SuiteStatus.OK
    assert found.comparison is not None and found.comparison.regressed == ("tests/test_reads.py::test_reads",)


# ── callers ──

SHOP = {
    "shop/__init__.py": "from shop.price import Price, total\n",
    "shop/price.py": (
        "RATE = 2\n\n\ndef total(items):\n    return sum(items)\n\n\ndef _inner():\n    return 1\n\n\n"
        "class Price:\n    def __init__(self, n):\n        self.n = n\n\n    def net(self):\n        return self.n\n\n"
        "    def gross(self):\n        return self.net() * RATE\n"
    ),
    "shop/page.py": (
        "from shop import total\nfrom shop.price import Price\n\n\ndef head(items):\n    return total(items)\n\n\n"
        "def foot(items):\n    return Price(total(items))\n"
    ),
    "shop/mail.py": (
        "from shop.price import total\n\nEMPTY = total([])\n\n\nclass Mail:\n    send = staticmethod(total)\n"
    ),
    "shop/apart.py": "def total(x):\n    return x\n\n\ndef own():\n    return total(1)\n",
    "README.md": "    total([1, 2])\n",
    "odd.py": "def odd(shop):\n    return shop.total([])\n",
    "other.py": "def report(thing):\n    return thing.net()\n",
    "test_page.py": "from shop.page import head\n\n\ndef test_head():\n    assert head([1]) == 1\n",
}
PRICE = SHOP["shop/price.py"]


@pytest.fixture(scope="module")
def shop(bench: MakeBench) -> Bench:
    return bench(SHOP)


def found(made: Bench, changed: dict[str, str | None]) -> dict[str, Used]:
    draft = made.draft(changed)
    before = indexed(TreeSource(made.base))
    return {one.symbol: one for one in used(draft, before, indexed(TreeSource(draft), base=before))[0]}


@pytest.mark.parametrize(
    ("old", "new", "symbols"),
    [
        ("sum(items)", "sum(list(items))", {"total"}),
        ("return self.n\n", "return self.n + 0\n", {"Price.net"}),
        ("self.n = n", "self.n = int(n)", {"Price"}),
        ("RATE = 2", "RATE = 3", {"RATE"}),
        ("return 1", "return 2", set()),  # nobody else's business
        ("def total(items):", "def new():\n    return 1\n\n\ndef total(items):", set()),
        ("def total(items):\n    return sum(items)\n\n\n", "", {"total"}),
        ("class Price:", "class Cost:", {"Price", "Price.net", "Price.gross"}),
    ],
)
def test_changed_public_symbols(shop: Bench, old: str, new: str, symbols: set[str]) -> None:
    assert old in PRICE
    changed = found(shop, {"shop/price.py": PRICE.replace(old, new, 1)})
    assert {*changed} == symbols
    assert {name for name, one in changed.items() if one.removed} == (symbols if not new or "Cost" in new else set())


def test_a_file_that_is_deleted_takes_all_its_symbols_along(shop: Bench) -> None:
    changed = found(shop, {"shop/price.py": None})
    assert {*changed} == {"RATE", "total", "Price", "Price.net", "Price.gross"}
    assert all(one.removed for one in changed.values())
    assert ("shop/page.py", "head", True) in {(u.path, u.inside, u.resolved) for u in changed["total"].uses}


def test_symbols_beyond_the_first_are_counted(bench: MakeBench) -> None:
    many = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(SYMBOLS + 3))
    made = bench({"many.py": many})
    draft, before = (
        made.draft({"many.py": many.replace("return", "return 1 +")}),
        indexed(TreeSource(made.base)),
    )
    told, more = used(draft, before, indexed(TreeSource(draft), base=before))
    assert (len(told), more) == (SYMBOLS, 3)


def test_callers_are_functions_and_classes_and_say_how_sure_they_are(shop: Bench) -> None:
    changed = found(shop, {"shop/price.py": PRICE.replace("sum(items)", "sum(list(items))")})
    uses = {(use.path, use.inside): use.resolved for use in changed["total"].uses}
    assert uses == {
        ("shop/page.py", "head"): True,
        ("shop/page.py", "foot"): True,
        ("shop/mail.py", ""): True,
        ("shop/mail.py", "Mail"): True,
        ("odd.py", "odd"): False,
    }
    net = found(shop, {"shop/price.py": PRICE.replace("return self.n\n", "return -self.n\n")})["Price.net"]
    assert {(use.path, use.inside): use.resolved for use in net.uses} == {
        ("shop/price.py", "Price.gross"): True,
        ("other.py", "report"): False,
    }


def test_what_is_told_is_cut_and_counted() -> None:
    uses = tuple(Use(f"{n}.py", "f", (n,), resolved=n % 2 == 0) for n in range(1, 41))
    told = impact(Used("f", "a.py", False, uses), lambda use: use.lines[0] <= 10)
    assert (len(told.callers), told.resolved, told.by_name, told.covered, told.count) == (10, 20, 20, 10, 40)


def test_callers_that_run_in_a_test_are_seen_to(shop: Bench, tmp_path: Path) -> None:
    """``head`` runs in a test; ``foot`` stands in the same file and does not."""
    new = {"test_new.py": "from shop.price import total\n\n\ndef test_new():\n    assert total([1, 2]) == 4\n"}
    draft = shop.draft({"shop/price.py": PRICE.replace("sum(items)", "sum(items) + len(items) - 1"), **new})
    evidence = measure(shop, tmp_path)(draft, None, to_the_end=True)
    assert evidence.proven and evidence.coverage is not None and evidence.coverage.ran == 1
    (total,) = evidence.impact
    assert (total.symbol, total.resolved, total.by_name) == ("total", 4, 1)
    ran = {(caller.path, caller.inside): caller.covered for caller in total.callers}
    assert ran["shop/page.py", "head"] and not ran["shop/page.py", "foot"]
    assert not ran["shop/mail.py", "Mail"] and total.covered == 1
