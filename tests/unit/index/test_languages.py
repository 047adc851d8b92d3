"""Every language of the registry: definitions, imports and where they lead."""

# ruff: noqa: E501 - a sample of source is one line as it is

from __future__ import annotations

import sys
from dataclasses import dataclass, field

import pytest

from agent.index import outline
from agent.index.graph import Graph
from agent.index.languages import LANGUAGES, language_by_head, language_by_name


@dataclass(frozen=True)
class Sample:
    source: str
    symbols: set[str]
    """``kind name``; must all be found."""
    imports: set[str] = field(default_factory=set)


SAMPLES = {
    "python": Sample(
        "import os.path as p\nfrom ..a import (b as c, d)\nX = 1\n@deco\ndef f(a):\n    '''Says so.'''\n"
        "class K(Base):\n    y = 2\n    if X:\n        async def m(self): pass\n    class In:\n        def n(self): pass\n",
        {"variable X", "function f", "class K", "variable K.y", "method K.m", "class K.In", "method K.In.n"},
        {"os.path", "..a"},
    ),
    "javascript": Sample(
        "import a, {b as c} from './x';\nexport * from './y';\nconst {z} = require('../q');\n"
        "export function foo(a) { return 1 }\nexport default class Foo extends Bar { baz = () => { return 1 }; q() {} }\n"
        "const arrow = async (x) => { return x };\nFoo.prototype.hi = function (a) {};\nexports.other = function () {};\n"
        "(function () { function inner() {} })();\nconst L = memo(() => 2);\n",
        {"function foo", "class Foo", "method Foo.baz", "method Foo.q", "function arrow", "function Foo.hi",
         "function other", "function inner", "function L"},
        {"./x", "./y", "../q"},
    ),
    "typescript": Sample(
        "import type {A} from '@/m';\nexport interface I<T> { a: string; f(x: number): void }\nexport type U = string;\n"
        "export enum E { A }\nexport namespace N { export function nf(): void {} }\n"
        "export abstract class C<T> { private x = 1; async m<T>(a: T): Promise<void> {} abstract n(): void; }\n"
        "export const fn = (a: number): string => { return '' };\n",
        {"interface I", "method I.f", "type U", "type E", "module N", "function N.nf", "class C", "variable C.x",
         "method C.m", "method C.n", "function fn"},
        {"@/m"},
    ),
    "tsx": Sample("export const App: React.FC = () => { return <div>hi</div> }\n", {"function App"}),
    "go": Sample(
        'package a\nimport (\n  "fmt"\n  x "example.com/m/y"\n)\nconst K = 1\nfunc Foo(a int) error { return nil }\n'
        "type S struct { A int }\ntype I interface { M() }\nfunc (s *S[T]) M(b string) error { return nil }\n",
        {"variable K", "function Foo", "class S", "interface I", "function S.M"},
        {"fmt", "example.com/m/y"},
    ),
    "rust": Sample(
        "use crate::a::{b, c::{d as e}};\npub use self::x::*;\nmod y;\npub fn foo(a: i32) -> i32 { 1 }\n"
        "pub struct S { a: i32 }\nimpl<T> S<T> { pub fn m(&self) {} }\ntrait T { fn t(&self); }\n"
        "macro_rules! mm { () => {} }\n",
        {"function foo", "class S", "method S.m", "interface T", "method T.t", "function mm"},
        {"crate::a", "crate::a::c", "self::x", "self::y"},
    ),
    "java": Sample(
        "package a.b;\nimport java.util.List;\nimport static a.b.C.d;\npublic class Foo<T> extends Bar {\n"
        "  private int x = 1;\n  public Foo() {}\n  @Override public <R> R m(int a) throws E { return null; }\n"
        "  interface In { void q(); }\n  enum En { A, B; void r() {} }\n}\nrecord R(int a) {}\n",
        {"class Foo", "variable Foo.x", "method Foo.Foo", "method Foo.m", "interface Foo.In", "method Foo.En.r", "class R"},
        {"java.util.List", "a.b.C.d"},
    ),
    "c": Sample(
        '#include "x/y.h"\n#include <stdio.h>\n#define MAX(a,b) (a)\nstruct s { int a; };\ntypedef struct { int b; } t_t;\n'
        "static int *foo(int a) { return 0; }\nint bar(void);\nint g;\n",
        {"macro MAX", "class s", "type t_t", "function foo", "prototype bar", "variable g"},
        {"x/y.h", "stdio.h"},
    ),
    "cpp": Sample(
        '#include "a.hpp"\nnamespace n { class C : public B { public: C(); int m(int a) const { return 1; } int d(); };\n'
        "template <typename T> T tf(T a) { return a; } }\nint n::C::d() { return 2; }\nusing X = int;\n",
        {"module n", "class n.C", "method n.C.m", "function n.tf", "function n.C.d", "type X"},
        {"a.hpp"},
    ),
    "c_sharp": Sample(
        "using System; using A = B.C;\nnamespace X.Y {\npublic class Foo : Bar { private int x; public int P { get; set; }\n"
        "public Foo() {} public async Task<int> M(int a) { return 1; } }\ninterface I { void Q(); } enum E { A } }\n",
        {"class Foo", "variable Foo.x", "variable Foo.P", "method Foo.Foo", "method Foo.M", "method I.Q", "type E"},
        {"System", "B.C"},
    ),
    "ruby": Sample(
        "require 'a/b'\nrequire_relative '../c'\nmodule M\n  class Foo < Bar\n    K = 1\n    def m(a)\n    end\n"
        "    def self.s; end\n  end\nend\ndef top; end\n",
        {"module M", "class M.Foo", "variable M.Foo.K", "method M.Foo.m", "method M.Foo.s", "function top"},
        {"a/b", "./../c"},
    ),
    "php": Sample(
        "<?php\nnamespace A\\B;\nuse C\\D as E;\nuse F\\{G, H};\nrequire_once __DIR__ . '/x.php';\n"
        "function foo($a) { return 1; }\nclass Foo extends Bar { private $x = 1; public function m(int $a): int { return 1; } }\n"
        "interface I { function q(); }\n",
        {"function foo", "class Foo", "variable Foo.x", "method Foo.m", "interface I", "method I.q"},
        {"C\\D", "F\\G", "F\\H", "/x.php"},
    ),
    "kotlin": Sample(
        "package a.b\nimport c.d.E as F\nclass Foo(val a: Int) : Bar() {\n  val x = 1\n  fun m(a: Int): Int {\n"
        "    return 1\n  }\n}\nobject O {\n  fun z() {}\n}\nfun <T> top(a: T) = a\n",
        {"class Foo", "variable Foo.x", "method Foo.m", "class O", "method O.z", "function top"},
        {"c.d.E"},
    ),
    "swift": Sample(
        "import Foundation\nstruct S: P {\n var x = 1\n init(a: Int) {}\n func m(a: Int) -> Int { return 1 }\n}\n"
        "protocol P { func q() }\nextension S { func e() {} }\nfunc top() {}\n",
        {"class S", "variable S.x", "method S.init", "method S.m", "interface P", "method P.q", "method S.e", "function top"},
        {"Foundation"},
    ),
    "scala": Sample(
        "package a.b\nimport c.d.{E => F, G}\nclass Foo(a: Int) extends Bar { val x = 1; def m(a: Int): Int = 1 }\n"
        "object O { def z() = {} }\ntrait T { def q(): Unit }\n",
        {"class Foo", "variable Foo.x", "method Foo.m", "class O", "method O.z", "interface T", "method T.q"},
        {"c.d.E", "c.d.G"},
    ),
    "bash": Sample(
        'source ./lib/x.sh\n. "$DIR/y.sh"\nX=1\nfoo() { echo; }\nfunction bar { echo; }\n',
        {"variable X", "function foo", "function bar"},
        {"./lib/x.sh", "y.sh"},
    ),
    "lua": Sample(
        "local x = require('a.b')\nfunction M.foo(a)\n return 1\nend\nfunction M:baz() end\nM.q = function() end\n",
        {"variable x", "function M.foo", "function M.baz", "function M.q"},
        {"a.b"},
    ),
    "perl": Sample("package A;\nsub hello { 1 }\n", {"function hello"}),
    "haskell": Sample("module A where\nfoo :: Int\nfoo = 1\nbar x = x\ndata T = A\n", {"function bar", "type T"}),
    "elixir": Sample("defmodule A.B do\n  def foo(x), do: x\nend\n", {"class A.B", "method A.B.foo"}),
    "ocaml": Sample("let foo x = x\ntype t = A\n", {"function foo", "type t"}),
    "julia": Sample("module A\nfunction foo(x)\n x\nend\nend\n", {"module A", "function A.foo"}),
    "r": Sample("foo <- function(a) { a }\n", {"function foo"}),
    "erlang": Sample("-module(a).\nfoo(X) -> X.\n", {"function foo"}),
    "elm": Sample("module A exposing (..)\nfoo x = x\n", {"function foo"}),
    "fortran": Sample("module m\ncontains\nsubroutine foo(x)\nend subroutine\nend module\n", {"function m.foo"}),
    "objc": Sample("@implementation Foo\n- (void)baz { return; }\n@end\n", {"class Foo", "method Foo.baz"}),
    "commonlisp": Sample("(defun foo (x) x)\n", {"function foo"}),
    "elisp": Sample("(defun foo (x) x)\n", {"function foo"}),
    "hcl": Sample('resource "a" "b" {\n  x = 1\n}\n', {"class resource.a.b"}),
    "hack": Sample("<?hh\nclass A { function b(): void {} }\n", {"class A", "method A.b"}),
    "make": Sample("all: foo\n\tgcc\n", {"function all"}),
}  # fmt: skip

needs_bundle = pytest.mark.skipif(sys.version_info >= (3, 13), reason="the bundled grammars stop at Python 3.12")


def test_every_language_has_a_sample() -> None:
    assert set(SAMPLES) == set(LANGUAGES)


@pytest.mark.parametrize("language", sorted(SAMPLES))
def test_definitions_and_imports(language: str) -> None:
    sample = SAMPLES[language]
    found = outline.record(sample.source.encode(), language)
    if found.note.startswith("no grammar") and sys.version_info >= (3, 13):
        pytest.skip("the bundled grammars stop at Python 3.12")
    assert sample.symbols <= {f"{symbol.kind} {symbol.name}" for symbol in found.symbols}
    assert {item.module for item in found.imports} == sample.imports


@pytest.mark.parametrize(
    ("files", "source", "target"),
    [
        (("p/__init__.py", "p/a.py", "p/q/b.py"), ("p/q/b.py", "from ..a import x"), "p/a.py"),
        (("src/p/a.py", "src/p/b.py"), ("src/p/b.py", "import p.a"), "src/p/a.py"),
        (("p/a/__init__.py", "p/a/c.py", "b.py"), ("b.py", "from p.a import c"), "p/a/c.py"),
        (("a/index.ts", "a/x.ts", "b/y.ts"), ("b/y.ts", "import {q} from '../a'"), "a/index.ts"),
        (("a/x.ts", "a/y.ts"), ("a/y.ts", "import {q} from './x.js'"), "a/x.ts"),
        (("src/m.ts", "src/deep/y.ts"), ("src/deep/y.ts", "import {q} from '@/m'"), "src/m.ts"),
        (("go.mod", "pkg/y/a.go", "main.go"), ("main.go", 'package m\nimport "ex.com/m/pkg/y"'), "pkg/y/a.go"),
        (("src/lib.rs", "src/a/mod.rs", "src/b.rs"), ("src/b.rs", "use crate::a::f;"), "src/a/mod.rs"),
        (("src/lib.rs", "src/a.rs", "src/a/c.rs"), ("src/a/c.rs", "use super::f;"), "src/a.rs"),
        (("k/src/lib.rs", "k/src/z.rs", "m/src/main.rs"), ("m/src/main.rs", "use k::z::f;"), "k/src/z.rs"),
        (("Cargo.toml", "src/lib.rs", "src/a.rs"), ("tests/it.rs", "use my_crate::a::f;"), "src/a.rs"),
        (("x/core/Cargo.toml", "x/core/src/lib.rs"), ("app/src/main.rs", "use my_crate::f;"), "x/core/src/lib.rs"),
        (("s/main/java/a/b/C.java", "s/x/D.java"), ("s/x/D.java", "import a.b.C;"), "s/main/java/a/b/C.java"),
        (("inc/x/y.h", "src/z.c"), ("src/z.c", '#include "x/y.h"\n'), "inc/x/y.h"),
        (("src/y.hpp", "src/z.cpp"), ("src/z.cpp", '#include "y.hpp"\n'), "src/y.hpp"),
        (("src/A/B/C.cs", "src/D.cs"), ("src/D.cs", "using A.B;"), "src/A/B/C.cs"),
        (("lib/a/b.rb", "lib/c.rb"), ("lib/c.rb", "require 'a/b'"), "lib/a/b.rb"),
        (("src/Sub/Y.php", "src/Z.php"), ("src/Z.php", "<?php use App\\Sub\\Y;"), "src/Sub/Y.php"),
        (("a/b/C.kt", "x/D.kt"), ("x/D.kt", "import a.b.C\nclass D"), "a/b/C.kt"),
        (("a/b/C.scala", "x/D.scala"), ("x/D.scala", "import a.b.C\nclass D"), "a/b/C.scala"),
        (
            ("Sources/Core/A.swift", "Sources/App/B.swift"),
            ("Sources/App/B.swift", "import Core"),
            "Sources/Core/A.swift",
        ),
        (("lib/x.sh", "bin/y.sh"), ("bin/y.sh", 'source "$ROOT/lib/x.sh"'), "lib/x.sh"),
    ],
)
def test_imports_lead_to_files(files: tuple[str, ...], source: tuple[str, str], target: str) -> None:
    path, text = source
    known = {"go.mod": "module ex.com/m\n", "Cargo.toml": '[package]\nversion = "1"\nname = "my-crate"\n[lib]\n'}
    contents = {name: known.get(name.rpartition("/")[2], "") for name in files} | {path: text}
    records = {}
    for name, content in contents.items():
        language = language_by_name(name)
        records[name] = outline.record(content.encode(), language.name if language else "text")
    paths = sorted(contents)
    graph = Graph(paths, [records[name] for name in paths], lambda name: contents[name])
    assert target in {paths[i] for i in graph.imports(paths.index(path))}


def test_tsconfig_paths_and_workspace_packages() -> None:
    contents = {
        "tsconfig.json": '{ // comment\n "compilerOptions": {"baseUrl": ".", "paths": {"~lib/*": ["packages/lib/src/*"]}}, }',
        "packages/lib/package.json": '{"name": "@acme/lib"}',
        "packages/lib/src/index.ts": "export const a = 1",
        "packages/lib/src/b.ts": "export const b = 1",
        "packages/app/x.ts": "import {a} from '@acme/lib'; import {b} from '~lib/b'",
    }
    paths = sorted(contents)
    records = [outline.record(contents[p].encode(), "typescript" if p.endswith(".ts") else "text") for p in paths]
    graph = Graph(paths, records, lambda name: contents[name])
    found = {paths[i] for i in graph.imports(paths.index("packages/app/x.ts"))}
    assert found == {"packages/lib/src/index.ts", "packages/lib/src/b.ts"}


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("tests/a.py", True), ("pkg/tests/util.py", True), ("pkg/test_x.py", True), ("django/test/client.py", False),
        ("sympy/testing/runtests.py", False), ("testing/test_x.py", True), ("src/a.test.ts", True), ("src/a.ts", False),
        ("a/b_test.go", True), ("a/b.go", False), ("src/test/java/a/FooTest.java", True), ("src/main/java/a/Foo.java", False),
        ("tests/it.rs", True), ("spec/a_spec.rb", True), ("Foo.Tests/BarTests.cs", True), ("Foo/Bar.cs", False),
        ("tests/Unit/FooTest.php", True), ("Tests/AppTests/A.swift", True), ("test/a.bats", True),
    ],
)  # fmt: skip
def test_tests_are_known_by_convention(path: str, test: bool) -> None:
    language = language_by_name(path)
    assert language is not None
    assert language.is_test(path) is test


def test_language_by_first_line() -> None:
    for line, name in (
        (b"#!/usr/bin/env -S python3 -u\n", "python"),
        (b"#!/bin/sh\n", "bash"),
        (b"#! /usr/bin/node", "javascript"),
    ):
        found = language_by_head(line)
        assert found is not None
        assert found.name == name
    assert language_by_head(b"#!") is None
    assert language_by_head(b"plain") is None


def test_decorators_and_exports_belong_to_the_definition() -> None:
    found = outline.record(b"@a\n@b(1)\ndef f():\n    pass\n", "python")
    assert [(s.name, s.start, s.end) for s in found.symbols] == [("f", 1, 4)]
    found = outline.record(b"// Doc.\nexport const f = () => {\n}\n", "javascript")
    assert [(s.name, s.start, s.end, s.doc) for s in found.symbols] == [("f", 2, 3, "Doc.")]


def test_chunks_cover_functions_and_remainders_once() -> None:
    source = "import a\nX = one\ndef f():\n    two\nclass K:\n    three = 3\n    def m(self):\n        four\nfive\n"
    found = outline.record(source.encode(), "python")
    where = {}
    for piece, words in zip(found.chunks, _words(found), strict=True):
        name = found.symbols[piece.symbol].name if piece.symbol >= 0 else ""
        where.update(dict.fromkeys(words, (piece.kind, name)))
    assert where["one"] == where["five"] == ("module", "")
    assert where["two"] == ("function", "f")
    assert where["three"] == ("class", "K")
    assert where["four"] == ("function", "K.m")


def _words(record: outline.Record) -> list[list[str]]:
    third = len(record.counts) // 3
    which, where = (memoryview(record.counts[i * third : (i + 1) * third]).cast("H") for i in range(2))
    words = record.words.split("\n")
    return [[words[w] for w, c in zip(which, where, strict=True) if c == chunk] for chunk in range(len(record.chunks))]
