"""Rust keeps tests inside the files that they test: they are tests all the same."""

from __future__ import annotations

import textwrap

import pytest

from agent.verify.inside import exchanged, inner_tests, lines_of_tests, product_in
from agent.verify.integrity import check
from agent.verify.proof import brought, with_only_tests
from tests.unit.verify.conftest import MakeBench

SOURCE = textwrap.dedent(
    """\
    use std::fmt;
    #[cfg(test)]
    use std::vec;

    /// Adds.
    pub fn add(
        a: i64,
        b: i64,
    ) -> i64 {
        a - b
    }

    mod inner {
        #[test]
        fn nested() {
            assert!(true);
        }
    }

    /// Pairs.
    #[cfg(test)]
    static CASES: &[(i64, i64)] = &[
        (1, 2),
    ];

    // Not much of a test.
    #[tokio::test(flavor = "current_thread")]
    async fn one_line() {}

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        #[should_panic]
        fn adds() {
            let text = r#"
    in a text"#;
            assert_eq!(add(1, 0), 1);
        }
    }

    pub fn last() -> bool { cfg!(test) }
    """
).replace("in a text", 'in a text\n}\n#[test]\nlet address = "http://{')


def test_tests_are_told_from_the_product() -> None:
    product = product_in("src/lib.rs", SOURCE)
    tests = inner_tests("src/lib.rs", SOURCE)
    for line in ("use std::fmt;", "/// Adds.", "    a - b", "pub fn last() -> bool { cfg!(test) }", "mod inner {"):
        assert line in product.split("\n") and line not in tests.split("\n")
    for line in ("use std::vec;", "    fn nested() {", "/// Pairs.", "    (1, 2),", "// Not much of a test.", "];"):
        assert line in tests.split("\n") and line not in product.split("\n")
    assert "assert_eq" in tests and "assert_eq" not in product
    assert len(lines_of_tests("src/lib.rs", SOURCE)) == len(tests.split("\n"))
    assert inner_tests("src/lib.py", SOURCE) == "", "other languages keep them elsewhere"


def test_the_base_gets_the_tests_of_the_change_and_nothing_else_of_it() -> None:
    change = (
        SOURCE.replace("a - b", "a + b").replace("add(1, 0), 1", "add(1, 1), 2").replace("assert!(true)", "panic!()")
    )
    made = exchanged("src/lib.rs", SOURCE, change)
    assert "a - b" in made and "a + b" not in made
    assert "add(1, 1), 2" in made and "add(1, 0), 1" not in made
    assert "assert!(true)" in made, "one that stands in another module is itself only there"
    assert made.count("mod tests {") == made.count("static CASES") == made.count("async fn one_line") == 1
    assert exchanged("src/lib.rs", "fn a() {}\n", change).startswith("fn a() {}\n")


def test_a_proof_and_the_tests_integrity_see_them(bench: MakeBench) -> None:
    made = bench({"src/lib.rs": SOURCE, "Cargo.toml": "[package]\n"})
    weaker = made.draft({"src/lib.rs": SOURCE.replace("assert_eq!(add(1, 0), 1)", "let _ = add(1, 0)")})
    assert {finding.kind for finding in check(made.workspace.base, weaker, None)} == {
        "assertion_removed",
        "test_changed",
    }
    more = SOURCE.replace("a - b", "a + helper(b)").replace("use super::*;", "use super::*;\n\n    fn fresh() {}\n")
    draft = made.draft({"src/lib.rs": more, "src/other.rs": "fn other() {}\n"})
    assert check(made.workspace.base, draft, None) == ()
    assert brought(draft) >= {"helper", "other"} and "fresh" not in brought(draft)
    (path,) = with_only_tests(draft).edits
    assert path == "src/lib.rs"
    content = with_only_tests(draft).edits[path]
    assert content is not None and b"fn fresh" in content.content and b"helper" not in content.content


@pytest.mark.parametrize("source", ["#[test]", "#[test]\nfn a() {\n", "#[cfg(test)]\n\n// nothing\n"])
def test_a_file_that_breaks_off_is_no_harm(source: str) -> None:
    assert inner_tests("a.rs", source).strip() == source.strip()
