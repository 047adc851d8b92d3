"""Which paths are tests, and which decide what tests are run and what counts as passing. Pure, by name alone."""

from __future__ import annotations

import re
from typing import Final

_TEST_FOLDERS: Final = frozenset(
    {"tests", "test", "testing", "__tests__", "spec", "specs", "e2e", "testdata", "__snapshots__", "__mocks__"}
)
_TEST_NAMES: Final = re.compile(
    r"test_.*\.pyi?|.*_tests?\.py|tests?\.py|conftest\.py"
    r"|.*[._-](test|tests|spec|e2e|cy)\.[cm]?[jt]sx?"
    r"|.*_test\.(go|rs|rb|exs|c|cc|cpp|sh|php|lua|dart)|test_.*\.(rb|c|cc|cpp|sh|lua)|tests?\.(rs|[cm]?[jt]s)"
    r"|.*(Test|Tests|TestCase|Spec|IT)\.(java|kt|kts|scala|groovy|cs|swift|php)|Test[A-Z].*\.(java|kt|scala|cs)"
    r"|.*_spec\.(rb|lua)|.*\.(snap|bats|feature)"
)
# A folder of this name is a test folder only where nothing says that it ships with the product.
_PRODUCT_FOLDERS: Final = frozenset({"src", "lib", "pkg", "internal", "app"})

_CONFIG_NAMES: Final = re.compile(
    r"conftest\.py|\.?pytest\.(ini|toml)|tox\.(ini|toml)|setup\.cfg|pyproject\.toml|(noxfile|manage|run_?tests?)\.py"
    r"|\.coveragerc|\.?codecov\.ya?ml"
    r"|\.noserc|(nose|nose2|unittest)\.cfg"
    r"|sitecustomize\.py|usercustomize\.py|.*\.pth"
    r"|package\.json|(jest|vitest|vite|karma|playwright|cypress|ava|wdio)\.conf(ig)?\.[cm]?[jt]s(on)?|\.mocharc(\.\w+)?"
    r"|\.(nyc|c8)rc(\.\w+)?|nyc\.config\.[cm]?js|(jest|vitest)[.-]?setup\.[cm]?[jt]sx?"
    r"|vitest\.(workspace|projects)\.([cm]?[jt]s|json)|setupTests\.[cm]?[jt]sx?|\.taprc|\.npmrc|\.yarnrc(\.yml)?|\.pnpmfile\.c?js|\.babelrc(\.\w+)?|babel\.config\.([cm]?[jt]s|json)|\.swcrc|bunfig\.toml|(deno|turbo|nx)\.jsonc?"
    r"|GNUmakefile|[Mm]akefile|justfile|Taskfile\.ya?ml|Rakefile|\.rspec|(spec|test|rails)_helper\.rb"
    r"|phpunit(\.dist)?\.xml(\.dist)?|pom\.xml|build\.gradle(\.kts)?|Cargo\.toml|go\.(mod|work)|((run[_-]?)?tests?|check|lint|ci)\.sh|\.cargo|nextest\.toml"
    r"|\.?ruff\.toml|\.flake8|\.?mypy\.ini|\.?pylintrc|pyrightconfig\.json|tsconfig[\w.-]*\.json|biome\.jsonc?|\.eslintignore|\.bandit"
    r"|\.eslintrc(\.\w+)?|eslint\.config\.[cm]?[jt]s"
    r"|\.golangci\.(ya?ml|toml)|clippy\.toml|\.rubocop\.yml|phpstan\.neon(\.dist)?|\.pre-commit-config\.yaml"
    r"|Jenkinsfile|\.travis\.yml|\.gitlab-ci\.yml|azure-pipelines\.yml|appveyor\.yml|\.drone\.yml"
)
_CI_FOLDERS: Final = (".github/workflows/", ".github/actions/", ".circleci/", ".buildkite/", ".gitlab/", ".woodpecker/")


def is_test(path: str) -> bool:
    """Whether the file is a test, or something that only tests use: fixtures, snapshots, test data."""
    *folders, name = path.split("/")
    if _TEST_NAMES.fullmatch(name):
        return True
    for depth, folder in enumerate(folders):
        if folder.lower() in _TEST_FOLDERS:
            # `src/pkg/testing/helpers.py` is a product's helper for other people's tests.
            shipped = folder.lower() in ("testing", "spec", "specs") and any(
                f in _PRODUCT_FOLDERS for f in folders[:depth]
            )
            return not shipped
    return False


def is_test_config(path: str) -> bool:
    """Whether the file can change which tests run, how, or what a run's exit status says."""
    return (
        is_ci(path)
        or path.lower().endswith((".cargo/config", ".cargo/config.toml"))
        or _CONFIG_NAMES.fullmatch(path.rsplit("/", 1)[-1]) is not None
    )


def is_ci(path: str) -> bool:
    """Whether the file belongs to a continuous-integration service's configuration."""
    folded = path.lower()
    return folded.startswith(_CI_FOLDERS)
