"""Digests of the part of the program that a simulated figure may depend on."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import swell
from swell.policies.registry import POLICIES

PACKAGE = Path(swell.__file__).parent
PAPERS = Path(__file__).parent
#: All figures may depend on these.
SHARED = (
    "core",
    "model",
    "placement",
    "sim",
    "throughput",
    "assemble.py",
    "arrays.py",
    "compiled.py",
    "settings.py",
)
OF_PAPERS = (PAPERS / "margin_cells.py", PAPERS / "promise_inputs.py")
#: Of these a figure of one policy depends on what that policy imports.
IMPORTED = ("policies", "solvers")


@cache
def program_digest(policy: str | None = None) -> str:
    """Return the digest of all sources that a figure of this policy may depend on; None: of any policy.

    Another program may find other figures.
    """
    named = POLICIES[policy].__module__ if policy is not None else None
    if named is None or not named.startswith("swell."):
        return digest_of_files(
            [*_files((*SHARED, *IMPORTED)), *OF_PAPERS, *sorted(PAPERS.glob("policies/*.py"))]
        )
    return digest_of_files([*_files(SHARED), *OF_PAPERS, *sorted(_imported_by(_file(named)))])


@cache
def digest_of(path: Path) -> str:
    """Return the digest of a file, or of all files of a folder."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return digest_of_files(file for file in files if file.is_file())


def digest_of_files(files: Iterable[Path]) -> str:
    """Return the digest of their names and contents."""
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _files(names: Iterable[str]) -> Iterator[Path]:
    for one in (PACKAGE / name for name in names):
        yield from sorted(one.rglob("*.py")) if one.is_dir() else [one]


def _imported_by(file: Path) -> set[Path]:
    """The file, and those of policies and solvers that it imports, directly or not."""
    found, new = set[Path](), {file}
    while new:
        found |= new
        new = {other for one in new for other in _imports(one)} - found
    return found


def _imports(file: Path) -> Iterator[Path]:
    """Files of policies and solvers that this one names in its imports."""
    for node in ast.walk(ast.parse(file.read_text())):
        modules = list[str]()
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        of_policies = (module for module in modules if module.split(".")[1:2] in ([one] for one in IMPORTED))
        yield from (_file(module) for module in of_policies if _file(module).exists())


def _file(module: str) -> Path:
    """The file of a module or package; it may not exist."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
