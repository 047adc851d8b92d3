"""How a tree is tested, by its files and by what is configured."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from agent.types import Commands
from agent.verify.dated import dated
from agent.verify.toolchains import TOOLCHAINS, detect, shell_line, tox
from agent.verify.toolchains.base import TestPlan
from agent.verify.toolchains.python_needs import extras, groups
from agent.verify.toolchains.python_setup import steps
from tests.support.snapshot import Snapshot

DJANGO = "os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'shop.settings')\n"


@pytest.mark.parametrize(
    ("files", "toolchain", "line"),
    [
        ({"tests/test_a.py": ""}, "python-pytest", "python3 -m pytest"),
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "python-pytest", "python3 -m pytest"),
        ({"setup.cfg": "[tool:pytest]\n"}, "python-pytest", "python3 -m pytest"),
        ({"package.json": '{"scripts": {"test": "mocha"}}'}, "node", "mocha"),
        ({"a.test.mjs": "import test from 'node:test'"}, "node", "node --test"),
        ({"Makefile": "all:\n\ntest: all\n\t./run\n"}, "command", "make test"),
        ({"Makefile": "test := 1\n"}, "command", ""),
        ({"package.json": "[" * 5000}, "command", ""),
        ({"pyproject.toml": "= broken", "setup.cfg": "\0"}, "python-pytest", "python3 -m pytest"),
        ({"manage.py": DJANGO, "shop/tests.py": ""}, "python-unittest", "python3 manage.py test"),
        ({"manage.py": DJANGO, "pytest.ini": "[pytest]\n"}, "python-pytest", "python3 -m pytest"),
        ({"manage.py": "print(1)\n"}, "python-pytest", "python3 -m pytest"),
        ({"setup.py": "", "Makefile": "test:\n\t./run\n"}, "command", "make test"),
        ({"third/unity/a_spec.rb": "", "Makefile": "test:\n\t./run\n"}, "command", "make test"),
        ({"release.py": "", "a.test.mjs": "import test from 'node:test'"}, "node", "node --test"),
        ({"go.mod": "", "setup.py": ""}, "python-pytest", "python3 -m pytest"),
        ({"go.mod": "", "a_test.go": "", "setup.py": ""}, "go", "go test ./..."),
        ({"go.work": "go 1.22\nuse ./a // ours\n", "a/go.mod": ""}, "go", "go test ./a/..."),
        ({"go.work": "use (\n\t.\n\t./b\n\t../out\n)\n", "go.mod": ""}, "go", "go test ./... ./b/..."),
    ],
)
def test_detection_reads_files_only(files: dict[str, str], toolchain: str, line: str) -> None:
    plan = detect(Snapshot({path: text.encode() for path, text in files.items()}), Commands())
    assert (plan.toolchain, plan.line) == (toolchain, line)
    assert bool(plan.absent) == (not line)


TOX = (
    "[tox]\nenvlist = py311\n[testenv]\nchangedir = {0}\nsetenv =\n  DJANGO_SETTINGS_MODULE = t.s\ncommands =\n  {1}\n"
)
MAIN = "import sys\nexecute_from_command_line([*sys.argv[:1], 'test', *sys.argv[1:]])\n"
DJANGOS = "DJANGO_SETTINGS_MODULE=t.s python3 "


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"tox.ini": TOX.format("tests", "{envpython} runtests.py {posargs}")}, f"cd tests && {DJANGOS}runtests.py"),
        ({"tox.ini": TOX.format(".", "coverage run -p -m django test -v2 {posargs:t}")}, f"{DJANGOS}-m django test t"),
        (
            {"tox.ini": TOX.format(".", "a: ./run.py\n  b: python -b -W always tests/manage.py test --settings t.s")},
            f"{DJANGOS}tests/manage.py test --settings=t.s",
        ),
        (
            {"Makefile": "PYTHON ?= python\ntest: build\n\t@$(PYTHON) tests/runtests.py $(ARGS)\n"},
            "python3 tests/runtests.py",
        ),
        (
            {"noxfile.py": "def tests(s):\n    s.run('python', '-m', 'twisted.trial', '-j4', 't', *s.posargs)\n"},
            "python3 -m twisted.trial t",
        ),
        (
            {".github/workflows/a.yml": "    - name: x\n      run: |\n        cd tests\n        trial t\n"},
            "python3 -m twisted.trial t",
        ),
        (
            {".github/workflows/a.yml": "    - run: cd tests && DB=a python runtests.py\n"},
            "cd tests && DB=a python3 runtests.py",
        ),
        (
            {"pyproject.toml": "[tool.hatch.envs.x.scripts]\ntest = 'python tests/runtests.py {args}'\n"},
            "python3 tests/runtests.py",
        ),
        # pytest: it is configured, or named first, or the same tests are unittest's
        ({"tox.ini": TOX.format("tests", "python runtests.py"), "pytest.ini": "[pytest]\n"}, ""),
        ({"tox.ini": TOX.format("tests", "python runtests.py\n  pytest b")}, ""),
        ({"tox.ini": TOX.format(".", "python -m unittest"), "Makefile": "test:\n\ttrial t\n"}, ""),
        # no word is taken that is not known: other options, other scripts, what a shell would work out
        ({"tox.ini": TOX.format("tests", "python runtests.py --selenium")}, ""),
        ({"tox.ini": TOX.format("tests", "python runtests.py $(id)")}, ""),
        ({"tox.ini": TOX.format("tests", "python runtests.py '; id'")}, ""),
        ({"tox.ini": TOX.format("tests", "LD_PRELOAD=x python runtests.py")}, ""),
        ({"tox.ini": TOX.format("tests", "python runtests.py --settings=a;b")}, ""),
        ({"tox.ini": TOX.format("-tests", "python runtests.py")}, ""),
        ({"tox.ini": TOX.format("../x", "python runtests.py")}, ""),
        ({"tox.ini": TOX.format(".", "python ../tests/runtests.py")}, ""),
        ({"tox.ini": TOX.format(".", "python tests/gone.py")}, ""),
        ({"tox.ini": TOX.format(".", "python tests/odd_test.py")}, ""),
        ({"tox.ini": TOX.format(".", "python -m twisted.trial nowhere")}, ""),
        ({"tox.ini": "[testenv\ncommands", "noxfile.py": "def tests(", "pyproject.toml": "= ["}, ""),
    ],
)
def test_the_projects_own_runner_is_put_together_from_known_words(files: dict[str, str], line: str) -> None:
    tree = {
        "tests/runtests.py": MAIN,
        "tests/manage.py": MAIN,
        "tests/odd_test.py": "run()",
        "t/test_a.py": "",
        **files,
    }
    plan = detect(Snapshot({path: text.encode() for path, text in tree.items()}), Commands())
    assert plan.line == (line or "python3 -m pytest")
    assert not line or next(iter(files)) in plan.reason


def test_a_runner_that_can_not_be_read_is_named() -> None:
    tox = TOX.format("tests", "python runtests.py -vv")
    tree = {"tests/runtests.py": b"run()", "tests/test_a.py": b"", "tox.ini": tox.encode()}
    plan = detect(Snapshot(tree), Commands())
    assert plan.line == "python3 -m pytest" and "tox.ini has the tests run by `python runtests.py -vv`" in plan.reason


WORDS = (
    "python",
    "-m",
    "django",
    "test",
    "trial",
    "tests",
    "runtests.py",
    "cd",
    "&&",
    "--settings",
    "a.b",
    "é",
    "$(id)",
    "$X",
)


@given(st.lists(st.sampled_from((*WORDS, *"/=;&|(){}'\"`\n<>*~#\\\0- ")), max_size=14).map(" ".join))
def test_no_text_of_a_repository_becomes_a_command(text: str) -> None:
    files = {"tox.ini": TOX.format("", text), "noxfile.py": "", "tests/runtests.py": MAIN, "tests/test_a.py": ""}
    files |= {"Makefile": f"test:\n\t{text}\n", ".github/workflows/a.yml": f"- run: {text}\n"}
    line = detect(Snapshot({path: said.encode() for path, said in files.items()}), Commands()).line
    assert re.fullmatch(r"(cd tests && )?(DJANGO_SETTINGS_MODULE=t\.s )?python3 -?[\w.]+[\w ./=-]*", line)


@pytest.mark.parametrize(
    ("line", "toolchain"),
    [
        ("pytest -q", "python-pytest"),
        ("cd sub && PYTHONPATH=src .venv/bin/py.test", "python-pytest"),
        ("coverage run -m pytest; coverage report", "python-pytest"),
        ("pip install pytest", "command"),
        ("make test", "command"),
        ("./run --junit {report}", "command"),
        ("python3 tests/runtests.py --parallel=1 forms", "python-unittest"),
        ("cd tests && python3 runtests.py forms", "python-unittest"),
        ("python3 -m django test --settings=a.b", "python-unittest"),
        ("python3 -m twisted.trial a", "python-trial"),
        ("python3 runtests.py", "command"),
    ],
)
def test_a_configured_command_wins(line: str, toolchain: str) -> None:
    files = {"package.json": b'{"scripts": {"test": "jest"}}', "tests/runtests.py": b'add_argument("--noinput")'}
    plan = detect(Snapshot({**files, "runtests.py": b"run()"}), Commands(test=line, setup=("x",)))
    assert (plan.toolchain, plan.line, plan.setup) == (toolchain, line, ("x",))


@pytest.mark.parametrize(
    ("line", "rewritten"),
    [
        ("pytest", "pytest !"),
        ("pytest -q tests && echo pytest", "pytest -q tests ! && echo pytest"),
        ("pip install pytest && pytest -x 2>&1 | tee log", "pip install pytest && pytest -x ! 2>&1 | tee log"),
        (
            "echo 'pytest x' ; timeout 60 a/b/pytest -k 'a; b' # all",
            "echo 'pytest x' ; timeout 60 a/b/pytest -k 'a; b' ! # all",
        ),
        ("python -m pytest a; python -m pytest b", "python -m pytest a !; python -m pytest b !"),
        ("(cd x; pytest)", "(cd x; pytest !)"),
        ("mypytest", "mypytest"),
    ],
)
def test_options_go_to_the_call_and_not_to_what_follows(line: str, rewritten: str) -> None:
    found = shell_line.calls(line, "pytest")
    assert (
        shell_line.rewrite(line, found, lambda _n, old: old.rstrip() + " !" + (" " if old.endswith(" ") else ""))
        == rewritten
    )


def test_a_selection_takes_the_place_of_paths_and_is_never_part_of_the_script() -> None:
    files = Snapshot({"tests/test_a.py": b"", "cfg.ini": b""})
    plan = detect(files, Commands(test="pytest -q -c cfg.ini tests --ignore tests/old"))
    hostile = "tests/test_a.py::test_x[$(touch /tmp/x); `id`]"
    call = TOOLCHAINS[plan.toolchain].invoke(plan, files, (hostile,), "/w")
    assert call.argv[:2] == ("/bin/sh", "-c")
    assert call.argv[2].startswith("pytest -q -c cfg.ini --ignore tests/old -o junit_family=xunit1")
    assert "touch" not in call.argv[2]
    assert call.argv[3:] == ("sh", f"/w/{hostile}")


def test_a_line_that_enters_a_folder_is_told_as_it_has_to_be_written_there() -> None:
    files = Snapshot({"sub/tests/test_a.py": b"", "test_b.py": b""})
    plan = detect(files, Commands(test="cd sub && pytest tests"))
    call = TOOLCHAINS[plan.toolchain].invoke(plan, files, ("sub/tests/test_a.py::test_x[a//b]", "test_b.py"), "/w")
    assert call.argv[2].startswith("cd sub && pytest -o "), "the folder is replaced by the selection"
    assert call.argv[3:] == ("sh", "/w/sub/tests/test_a.py::test_x[a//b]", "/w/test_b.py")
    assert call.shown == ("sh", "-c", "cd sub && pytest 'tests/test_a.py::test_x[a//b]' ../test_b.py")


def test_more_ids_than_fit_on_a_command_line_become_files() -> None:
    files = Snapshot({"tests/test_a.py": b""})
    plan = detect(files, Commands())
    many = tuple(f"tests/test_a.py::test_{n}[{'x' * 50}]" for n in range(5000))
    assert TOOLCHAINS[plan.toolchain].invoke(plan, files, many, "/w").argv[3:] == ("sh", "/w/tests/test_a.py")


def test_coverage_thresholds_say_nothing_of_a_selection() -> None:
    files = Snapshot({"pyproject.toml": b"[tool.pytest.ini_options]\naddopts = '--cov=x --cov-fail-under=90'\n"})
    plan = detect(files, Commands())
    assert "--no-cov" in TOOLCHAINS[plan.toolchain].invoke(plan, files, (), "/w").argv[2]


def test_coverage_that_only_tox_asks_for_is_no_reason_to_switch_it_off() -> None:
    tox = b"[testenv]\ndeps = pytest-cov\ncommands = pytest --cov=x\n[pytest]\naddopts =\n  -q\n"
    files = Snapshot({"tox.ini": tox, "tests/test_x.py": b""})
    plan = detect(files, Commands())
    assert "--no-cov" not in TOOLCHAINS[plan.toolchain].invoke(plan, files, (), "/w").argv[2]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"pyproject.toml": "[tool.pdm.dev-dependencies]\ntest = ['a>=1', '-e x']\nlint = ['b']\n"}, ("a>=1",)),
        ({"pyproject.toml": "[tool.uv]\ndev-dependencies = ['a']\n"}, ("a",)),
        ({"pyproject.toml": "[tool.hatch.envs.default]\ndependencies = ['a']\n[tool.hatch.envs.docs]\n"}, ("a",)),
        ({"pyproject.toml": "[tool.hatch.envs.hatch-test]\nextra-dependencies = ['a']\n"}, ("a",)),
        ({"pyproject.toml": "[tool.pixi.feature.test.pypi-dependencies]\na = '*'\nb = {path = 'b'}\n"}, ("a",)),
        (
            {"Pipfile": "[packages]\na = '~=1.0'\n[dev-packages]\nb = {version = '*'}\nc = {git = 'x'}\n"},
            ("a~=1.0", "b"),
        ),
        (
            {"noxfile.py": "def tests(s):\n    s.install('a', '-r', 'x', '.')\ndef docs(s):\n    s.install('c')\n"},
            ("a",),
        ),
        (
            {
                "tox.ini": "[tox]\nenvlist = lint, py{38,39}-dj{42,50}-{sq,pg}-tag\n[testenv]\n"
                "deps =\n  a>=1\n  sq,x: b\n  pg: c\n  tag-dj42: d\n  tag-!sq: e\n  py39: f\n"
                "  dj42: Need~=4.2\n  sq: -e g\n",
                "setup.py": "setup(install_requires=['need'])",
            },
            ("a>=1", "b", "d"),
        ),
        (
            {
                "pyproject.toml": "[tool]\nuv = 1\npdm = []\n[tool.hatch.envs]\ntest = 2\n",
                "Pipfile": "=",
                "noxfile.py": "(",
            },
            (),
        ),
    ],
)
def test_what_other_tools_keep_for_tests(files: dict[str, str], wanted: tuple[str, ...]) -> None:
    tree = Snapshot({path: content.encode() for path, content in files.items()})
    installed = [step.argv[step.argv.index("--") + 1 :] for step in steps(tree, "") if "--" in step.argv]
    others = [names for names in installed if names[0] not in ("setuptools>=40.8.0", "need")]
    assert others == ([wanted] if wanted else [])


def test_requirements_files_that_tox_names() -> None:
    tox = b"[testenv]\ndeps =\n  py{3,311}: -rt/a.txt\n  -r{toxinidir}/b.txt\n  -r../c.txt\n"
    made = steps(Snapshot({"tox.ini": tox, "t/a.txt": b"a", "b.txt": b"b", "c.txt": b"c"}), "")
    assert [step.argv[-1] for step in made if "-r" in step.argv] == ["t/a.txt", "b.txt"]


def test_an_old_commit_gets_what_there_was_at_its_time() -> None:
    files = Snapshot({"requirements.txt": b"a\n", "package.json": b'{"dependencies": {"b": "*"}}'})
    plan = detect(files, Commands(test="pytest", dependencies_before="2020-02-02"))
    venv, newer, runner, needs = dated(steps(files, "pytest"), plan.before)
    assert (venv.env, newer.env, newer.argv[-1]) == ({}, {}, "pip>=26")
    assert needs.env["PIP_UPLOADED_PRIOR_TO"] == "2020-02-02T00:00:00Z"
    assert runner.argv[-1] == "pytest"
    assert runner.env["PIP_UPLOADED_PRIOR_TO"] > "2023", "it has to suit the interpreter"
    package = Snapshot({"setup.py": b"setup(name='p', install_requires=['a'])"})
    ways = [(step.ahead, bool(step.env)) for step in dated(steps(package, ""), plan.before)[2:]]
    assert ways == [(False, True), (True, False), (False, False)], "its needs, what builds it, itself"
    (npm,) = dated(TOOLCHAINS["node"].prepare(files), plan.before)
    assert npm.env["npm_config_before"] == "2020-02-02T00:00:00Z"
    assert dated(steps(files, "pytest"), "") == steps(files, "pytest")
    with pytest.raises(ValidationError):
        Commands(dependencies_before="--index-url")


def test_what_a_python_project_needs_for_its_tests() -> None:
    files = Snapshot(
        {
            "pyproject.toml": b"[project]\nname = 'my-pkg'\n[project.optional-dependencies]\n"
            b"Test = ['a']\ndocs = ['b']\ntrio = []\nfast = []\n[tool.tox.env_run_base]\nextras = ['trio']\n"
            b"[dependency-groups]\ndev = ['c', 'My_Pkg[fast, gone]']\n[build-system]\nrequires = ['setuptools-scm']\n",
            "setup.py": b"EXTRAS = {'testing': ['x'], 'speed': []}\nsetup(extras_require=EXTRAS)",
            "setup.cfg": b"[options.extras_require]\ntests =\n    y\nother = z\n",
            "requirements-dev.txt": b"d\n",
            "tox.ini": b"[testenv]\nextras =\n    testing\n    fast: speed\n    gone: nothing\n"
            b"deps =\n    e>=1\n    py311: f\n    -r{toxinidir}/x.txt\n    {env:X}\n"
            b"\n[testenv:docs]\ndeps = g\n",
        }
    )
    assert extras(files) == ("Test", "tests", "testing", "trio", "speed", "fast")
    assert groups(files) == ("c",)
    assert tox.requirements("[testenv]\ndeps = pytest<9 # why\n") == ("pytest<9",)
    made = steps(files, "pytest")
    assert made[0].argv == ("python3", "-m", "venv", "/environment/venv")
    installed = [step.argv[step.argv.index("--quiet") + 1 :] for step in made[1:-1] if not step.ahead]
    assert installed == [
        ("-r", "requirements-dev.txt"),
        ("--", "c"),
        ("--", "e>=1"),
        ("--", "pytest"),
    ]
    assert "-e '.[Test,tests,testing,trio,speed,fast]' ||" in made[-1].argv[2]
    assert made[-1].env["SETUPTOOLS_SCM_PRETEND_VERSION_FOR_MY_PKG"] == "999.0"
    assert [step.required for step in made] == [True, False, False, False, True, False, False, False]
    assert [step.argv[-3:] for step in made if step.ahead] == [("x", "y", "a"), ("--", "setuptools-scm", "wheel")]


def test_djangos_own_runner_runs_a_selection_in_one_process() -> None:
    plan = TestPlan("python-unittest", "python3 tests/runtests.py --parallel=4 forms", "configured")
    invoke = TOOLCHAINS[plan.toolchain].invoke
    assert invoke(plan, Snapshot({}), (), "/v").argv[2].endswith("--parallel=4 forms -v 2 -b --noinput")
    one = invoke(plan, Snapshot({}), ("forms.tests.T.test_a",), "/v")
    assert one.argv[2:] == (
        'python3 tests/runtests.py -v 2 -b --noinput --parallel=1 "$@"',
        "sh",
        "forms.tests.T.test_a",
    )
    files = ("tests/forms/test_b.py", "forms.tests.T.test_a")
    assert invoke(plan, Snapshot({}), files, "/v").argv[4:] == ("forms.test_b", "forms.tests.T.test_a")
    outside = invoke(plan, Snapshot({}), ("docs/test_x.py",), "/v")
    assert outside.argv[2].endswith("forms -v 2 -b --noinput") and not outside.argv[4:], "then everything runs"
    plan = TestPlan("python-unittest", "cd tests && python3 -m django test --settings a.b x", "configured")
    assert invoke(plan, Snapshot({}), ("tests/a/test_b.py",), "/v").shown == (
        *("sh", "-c", "cd tests && python3 -m django test '--settings a.b' a.test_b"),
    )
