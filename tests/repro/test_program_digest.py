"""A figure is made again when what it may depend on has changed, and not when anything else has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swell.policies.registry import POLICIES
from swell_papers import program_digest
from swell_papers.program_digest import IMPORTED, PACKAGE


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources, which may be changed."""
    for name in (*program_digest.SHARED, *IMPORTED):
        for file in [PACKAGE / name] if name.endswith(".py") else sorted((PACKAGE / name).rglob("*.py")):
            copy = tmp_path / file.relative_to(PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())
    monkeypatch.setattr(program_digest, "PACKAGE", tmp_path)
    return tmp_path


def digest(policy: str | None) -> str:
    program_digest.program_digest.cache_clear()
    return program_digest.program_digest(policy)


@pytest.mark.slow
@pytest.mark.parametrize(
    "file, changed",
    [
        ("policies/elasticflow/shares.py", {"elasticflow", "pollux", None}),
        ("policies/fifo.py", {"fifo", "pollux", None}),
        ("solvers/knapsack.py", {"bftrainer", "pollux", None}),
        ("sim/simulate.py", {"elasticflow", "fifo", "bftrainer", "pollux", None}),
    ],
)
def test_it_changes_with_what_a_policy_imports(program: Path, file: str, changed: set[str | None]) -> None:
    policies = ("elasticflow", "fifo", "bftrainer", "pollux", None)
    before = {policy: digest(policy) for policy in policies}
    with (program / file).open("a") as source:
        source.write("# another\n")
    assert {policy for policy in policies if digest(policy) != before[policy]} == changed


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["elasticflow", "hu", "saxena"])
def test_nothing_is_imported_that_is_not_looked_at(policy: str) -> None:
    module = POLICIES[policy].__module__
    code = f"import sys, {module}; print(*(one.__file__ for one in sys.modules.values() if one is not None "
    code += "and one.__name__.startswith(('swell.policies', 'swell.solvers'))), sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    looked_at = program_digest._imported_by(program_digest._file(module))
    loaded = {Path(line) for line in done.stdout.splitlines()}
    assert loaded and {file for file in loaded if file.name != "__init__.py"} <= looked_at
