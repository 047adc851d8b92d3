"""What a change adds beside tests that it leaves as they are, and what it may add."""

from __future__ import annotations

import pytest

from agent.verify import other_tests, surroundings

PY = "import pytest\nfrom calc import add\n\n\ndef test_add(client):\n    x = add(1, 2)\n    assert x == 3\n"
UNIT = "import unittest\n\n\nclass TestA(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 1)\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PY, PY.replace("from calc", "from fake")),
        (PY, PY.replace("add\n\n\ndef", "add\nfrom fake import add\n\n\ndef")),
        (PY, PY + "\n\ndef add(a, b):\n    return 3\n"),
        (PY, PY + "\n\nadd = lambda a, b: 3\n"),
        (PY, PY + "\n\nimport calc\ncalc.add = lambda a, b: 3\n"),
        (PY, PY + "\n\nimport calc\nsetattr(calc, 'add', print)\n"),
        (PY, PY + "\n\ndef setup_module():\n    pass\n"),
        (PY, PY + "\n\n@pytest.fixture\ndef client():\n    return 2\n"),
        (PY, PY + "\n\n@pytest.fixture(name='client')\ndef other():\n    return 2\n"),
        (PY, PY + "\n\n@pytest.fixture(autouse=True)\ndef fake(monkeypatch):\n    pass\n"),
        (PY, PY + "\n\nif True:\n    from fake import *\n"),
        (UNIT, UNIT + "\n    def setUp(self):\n        pass\n"),
        (UNIT, UNIT + "\n    def assertEqual(self, a, b):\n        pass\n"),
        (UNIT, UNIT.replace("unittest.TestCase", "Other")),
        (None, "import calc\n\ncalc.add = lambda a, b: 3\n"),
    ],
)
def test_what_acts_on_python_tests_that_stay_as_they_are(old: str | None, new: str) -> None:
    assert list(surroundings.problems(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PY, PY.replace("import add", "import add, sub") + "\n\ndef test_sub():\n    assert sub(2, 1) == 1\n"),
        (
            PY,
            PY
            + "\n\nx = 3\n\n\n@pytest.fixture\ndef server():\n    return 1\n\n\ndef test_b(server):\n    assert add\n",
        ),
        (
            PY,
            PY + "\n\nclass TestB:\n    def setup_method(self):\n        pass\n\n    def test_b(self): ...\n",
        ),
        (PY, PY + "\n\nif __name__ == '__main__':\n    pytest.main()\n"),
        (UNIT, UNIT + "\n    def test_b(self):\n        self.assertTrue(1)\n"),
        (None, "import sys\n\nsys.path.insert(0, 'x')\n\n\ndef setup_module():\n    pass\n"),
    ],
)
def test_what_python_tests_do_not_notice(old: str | None, new: str) -> None:
    assert not list(surroundings.problems(old, new))


JS = """import { add } from './calc'

describe('calc', () => {
  it('adds', () => {
    const x = add(1, 2)
    expect(x).toBe(3)
  })
})
"""
GO = "package a\n\nfunc TestA(t *testing.T) {\n\tfor _, c := range []int{\n\t\t1,\n\t} {\n\t\tt.Fatal(c)\n\t}\n}\n"
TABLE = """const cases = [
  [1, 2],
  [3, 4],
]
const more = {
  'a b': 1,
}
const later = [
  'x',
]
for (const [a, b] of cases) test(`${a}`, () => expect(f(a)).toBe(b))
for (const key in more) test(key, () => expect(f(key)).toBe(more[key]))
test('all', () => {
  expect(f(9))
    .toBe(
      9,
    )
  assert.deepEqual(
    f(1),
    2,
  )
  expect(f()).toEqual([
    7,
  ])
  if (later.includes('y')) work()
})
"""
GO_TABLE = """package a

func TestA(t *testing.T) {
\ttests := []struct {
\t\tname string
\t\tf    func() int
\t}{
\t\t{"a", func() int { return 1 }},
\t\t{
\t\t\tname: "b",
\t\t\tf: func() int {
\t\t\t\treturn 2
\t\t\t},
\t\t},
\t}
\tfor _, tt := range tests {
\t\tcheck(t, tt)
\t}
}
"""
RUST_TABLE = """#[test]
fn a() {
    for (x, y) in [
        (1, 2),
        (f(2), 3),
    ] {
        assert_eq!(f(x), y);
    }
}
"""
JAVA_TABLE = """class ATest {
    @ParameterizedTest
    @ValueSource(ints = {
        1,
        2
    })
    void a(int n) {
        assertEquals(n, f(n));
    }
}
"""
RUST = """#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a() {
        assert_eq!(add(1), 3);
    }
}
"""
JAVA = "class ATest {\n    @Test\n    void adds() {\n        assertEquals(1, add());\n    }\n}\n"
RUBY = "describe 'x' do\n  it 'a' do\n    expect(1).to eq 1\n  end\nend\n"
PHP = "<?php\nclass ATest extends T\n{\n    public function testA()\n    {\n        $this->assertTrue(f());\n    }\n}\n"


@pytest.mark.parametrize(
    ("path", "old", "before", "added"),
    [
        ("a.test.js", JS, "    const x", "    return\n"),
        ("a.test.js", JS, "    expect", "    /*\n"),
        ("a.test.js", JS, "    const x", "    if (process.env.CI) return\n"),
        ("a.test.js", JS, "    const x", "    const expect = () => ({ toBe() {} })\n"),
        ("a.test.js", JS, "  it(", "  beforeEach(() => { calc.add = () => 3 })\n"),
        ("a.test.js", JS, "describe", "jest.mock('./calc', () => ({ add: () => 3 }))\n"),
        ("a.test.js", JS, "describe", "const expect = require('./fake')\n"),
        ("a.test.js", JS, "describe", "process.on('exit', () => { process.exitCode = 0 })\n"),
        ("a_test.go", GO, "\tfor", "\treturn\n"),
        ("a_test.go", GO, "\tfor", "\tdefer func() { recover() }()\n"),
        ("a_test.go", GO, "func TestA", "func TestMain(m *testing.M) {\n\tm.Run()\n\tos.Exit(0)\n}\n\n"),
        ("a.rs", RUST, "        assert_eq!", "        return;\n"),
        ("a.rs", RUST, "    #[test]", "    use fake::add;\n"),
        ("a.rs", RUST, "#[cfg", "macro_rules! assert_eq { ($($t:tt)*) => {} }\n"),
        ("ATest.java", JAVA, "        assertEquals", "        if (x) return;\n"),
        ("ATest.java", JAVA, "    @Test", "    @BeforeEach\n    void fake() {\n    }\n\n"),
        ("a_spec.rb", RUBY, "    expect", "    next\n"),
        ("a_spec.rb", RUBY, "  it", "  before do\n    fake\n  end\n"),
        ("ATest.php", PHP, "        $this", "        return;\n"),
        ("a.test.js", JS, "    expect", "    expect(1).toBe(1); return\n"),
        ("a.test.js", JS, "    expect", "    if (0)\n"),
        ("a.test.js", JS, "    expect", "    `\n    ` && \n"),
        ("a.test.js", JS.replace("{ add }", "{\n  add,\n}"), "  add,", "  expect,\n"),
        ("a.test.js", TABLE, "    .toBe(", "  expect(9)\n"),
        ("a.test.js", TABLE, "    2,\n  )", "    2,\n"),
        ("a.test.js", TABLE, "    7,", "    8,\n"),
        ("a.test.js", TABLE, "  'x',", "  'y',\n"),
        ("a.test.js", TABLE, "]\nconst more", "  [(cases.length = 0), 1],\n"),
        ("a.test.js", TABLE, "]\nconst more", "  [cases.pop(), 1],\n"),
        ("a.test.js", TABLE, "]\nconst more", "  [`${cases.pop()}`, 1],\n"),
        ("a.test.js", TABLE, "]\nconst more", "  ...others,\n"),
        ("a.test.js", TABLE, "}\nconst later", "  'a b': 2,\n"),
        ("a.test.js", TABLE, "}\nconst later", "  'a\\x20b': 2,\n"),
        ("a.test.js", TABLE.replace("cases", "skipped"), "]\nconst more", "  [5, 6],\n"),
        ("a.test.js", TABLE.replace("for (const key", "if ('z'"), "}\nconst later", "  'z': 2,\n"),
        ("a.test.js", "const o = {\n  a: 1,\n}\nrunTests(o)\n", "}", "  quick: 1,\n"),
        ("a.test.js", "runTests(x, {\n  a: 1,\n})\n", "}", "  quick: 1,\n"),
        ("a_test.go", "func TestA() {\n\trunAll(t, Options{\n\t\tA: 1,\n\t})\n}\n", "\t\tA", "\t\tQuick: 1,\n"),
        ("a_test.go", GO_TABLE, "\t\tcheck", '\t\tif tt.name == "a" {\n\t\t\tcontinue\n\t\t}\n'),
        ("a_test.go", GO_TABLE.replace("range tests", "range tests[1:]"), '\t\t{"a"', '\t\t{"b", nil},\n'),
        ("a.rs", RUST_TABLE, "        (f(2)", "        (return, 3),\n"),
        ("a.rs", RUST_TABLE, "#[test]", "#[ignore]\n"),
        ("a.rs", RUST, "    fn a", "    #[case(1)] #[cfg(none)]\n"),
        ("ATest.java", JAVA, "    void adds", "    @Test(enabled = no)\n"),
        ("a.rs", RUST, "        assert_eq!", "        use fake::*;\n"),
        ("ATest.java", JAVA, "    @Test", "    void assertEquals(int a, int b) {\n    }\n\n"),
        ("ATest.java", JAVA, "    @Test", "    {\n        fake();\n    }\n\n"),
    ],
)
def test_what_is_added_to_tests_of_other_languages(path: str, old: str, before: str, added: str) -> None:
    assert list(other_tests.compare(path, old, old.replace(before, added + before, 1)))


@pytest.mark.parametrize(
    ("path", "old", "before", "added"),
    [
        ("a.test.js", JS, "  it(", "  // why\n  it('b', async () => {\n    expect(add(2, 2)).toBe(4)\n  })\n\n"),
        ("a.test.js", JS, "  })\n})", "  })\n\n  it('b', () => {\n    expect(/[{(]/.test(`a\n{`)).toBe(1)\n"),
        ("a.test.js", JS, "    expect", "    expect(x).toBeTruthy()\n"),
        ("a.test.js", JS, "import", "import fs from 'fs'\nconst make = (a) => ({\n  a,\n})\n"),
        (
            "a_test.go",
            GO,
            "func TestA",
            'type row struct {\n\ta int\n}\n\nfunc TestB(t *testing.T) {\n\tt.Fatal("{")\n}\n\n',
        ),
        ("a_test.go", GO, "\t\t1,\n", "\t\t2,\n"),
        (
            "a.rs",
            RUST,
            "    #[test]",
            '    /// Of {\n    #[test]\n    fn b<\'a>() {\n        assert!(f("{\n"));\n    }\n\n',
        ),
        ("ATest.java", JAVA, "class", "import x.Y;\n\n"),
        (
            "ATest.java",
            JAVA,
            "    @Test",
            "    @Test\n    void b() {\n        fail();\n    }\n\n    Foo foo(int a) {\n        return 1;\n    }\n\n",
        ),
        ("a_spec.rb", RUBY, "  it", "  it 'b' do\n    expect(2).to eq 2\n  end\n\n"),
        (
            "ATest.php",
            PHP,
            "    public",
            "    public function testB(): void\n    {\n        $this->fail('{');\n    }\n\n",
        ),
        ("a.test.js", TABLE, "  [3, 4]", "  [5, 6],\n"),
        ("a.test.js", TABLE, "  'a b'", "  'c': 2,\n"),
        ("a.test.js", TABLE.replace("4],", "4]"), "]\nconst more", "  [5, 6]\n"),
        (
            "a_test.go",
            GO_TABLE,
            '\t\t{"a"',
            '\t\t{\n\t\t\tname: "c",\n\t\t\tf: func() int {\n\t\t\t\treturn g(3)\n\t\t\t},\n\t\t},\n',
        ),
        ("a_test.go", "func TestA() {\n\tcheckAll(t, []X{\n\t\t{1, 2},\n\t})\n}\n", "\t})", "\t\t{3, 4},\n"),
        ("a.rs", RUST_TABLE, "        (f(2)", "        (f(3), 4),\n"),
        ("a.rs", "#[rstest]\n#[case(1)]\nfn a(#[case] n: u8) {\n    assert!(f(n));\n}\n", "fn a", "#[case(2)]\n"),
        ("ATest.java", JAVA_TABLE, "        2", "        3,\n"),
        ("ATest.java", JAVA, "    @Test", '    @SuppressWarnings("x")\n'),
    ],
)
def test_declarations_may_be_added_to_tests_of_other_languages(path: str, old: str, before: str, added: str) -> None:
    assert not list(other_tests.compare(path, old, old.replace(before, added + before, 1)))


def test_what_only_has_another_place_is_no_finding() -> None:
    one, other = "import a from 'a'\n", "import b from 'b'\n"
    tests = "".join(f"test('{n}', () => {{\n  expect({n}).toBe({n})\n}})\n" for n in range(3))
    assert not list(other_tests.compare("a.test.js", one + other + tests, other + one + tests))
    assert not list(other_tests.compare("a.test.js", one + tests, one + tests.replace("\n  ", "\n    ")))
    body = "test('a', () => {\n  x = f()\n  expect(x).toBe(1)\n  x = g()\n})\n"
    moved = "test('a', () => {\n  x = f()\n  x = g()\n  expect(x).toBe(1)\n})\n"
    assert list(other_tests.compare("a.test.js", body, moved))


def test_a_file_of_any_content_is_compared_in_bounded_time() -> None:
    """Each would take minutes or hours if time grew with the square of the lines."""
    many = 30_000
    same = list(other_tests.compare("a.test.js", "x();\n" * many, "x();\n" * (many + 9)))
    assert [problem.kind for problem in same] == ["test_changed"]
    assert list(other_tests.compare("a.test.js", "x();\n", "x();\n" + "/*\n" * many))
    assert not list(other_tests.compare("tests/a.rs", "fn a() {}\n", "fn a() {}\n" + 'r#"\n' * many))
    for endless in ("`\\", "=/[a"):
        assert list(other_tests.compare("a.test.js", "x();\n", "x();\n" + endless * many))
    for wide in ("func ", "a: ", "["):
        rows = f"const rows = [\n{wide * many}\n1,\n];\nfor (const row of rows) {{\n}}\n"
        assert list(other_tests.compare("a.test.js", rows, rows.replace("1,", "2,")))
    opened, closed = "x(() => {\n" * 3_000, "});\n" * 3_000
    assert list(other_tests.compare("a.test.js", opened + closed, f"{opened}y();\n{closed}"))
    apart = "".join(f"f{number}();\n" for number in range(2_000))
    assert list(
        other_tests.compare("a.test.js", "x();\n" * many + apart, "x();\n" * many + apart.replace("\n", "\ny()\n"))
    )
