"""Whether a script can use Swell at all, by its source and that of what it imports."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_NAME = re.compile(r"\bswell\b")
#: With one of these a script may import, or run, what its source does not name.
DYNAMIC = re.compile(rb"\b(importlib|import_module|__import__|runpy|exec|execfile)\b")
_INSTALLED = ("site-packages", "dist-packages")


def may_use_swell(entry: str) -> bool:
    """Whether `swell` stands in a script, in a module beside it that it imports, or may stand elsewhere.

    Args:
        entry: path of a script, or `package.module[:function]` in the current folder.
    """
    folders = [Path.cwd(), *map(Path, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if os.path.isfile(entry):
        folders.insert(0, Path(entry).resolve().parent)
        left = [Path(entry)]
    else:
        left = list(_files_of(entry.partition(":")[0], folders))
    if not left:
        return True
    seen: set[Path] = set()
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            source = path.read_bytes()
            text, tree = source.decode(), ast.parse(source)
        except (OSError, ValueError, SyntaxError):
            return True  # the run tells
        if _NAME.search(text) or DYNAMIC.search(source):
            return True
        for name in imported(tree, path):
            files = list(_files_of(name, [*folders, *path.parents]))
            left += files
            if not files and _is_of_swell(name.partition(".")[0]):
                return True
    return False


def imported(tree: ast.AST, path: Path) -> Iterator[str]:
    """Names of the modules that a source imports, and of what may be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = path.resolve().parents[max(0, node.level - 1)].name if node.level else ""
            module = ".".join(part for part in (above, node.module or "") if part)
            yield module
            yield from (f"{module}.{each.name}" for each in node.names)


def _files_of(module: str, folders: list[Path]) -> Iterator[Path]:
    """The files of a module and of the packages around it, where they are in one of these folders."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        for folder in folders:
            place = folder.joinpath(*parts[:count])
            yield from (path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file())


def _is_of_swell(package: str) -> bool:
    """Whether an installed package may use Swell: it needs it, or is installed from a folder of its own."""
    if package in sys.stdlib_module_names or not package:
        return False
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    if found is None or found.origin is None or not any(part in found.origin for part in _INSTALLED):
        return found is not None
    try:
        needed = importlib.metadata.requires(package) or ()
    except importlib.metadata.PackageNotFoundError:
        return False  # of a package by another name: those of swell's are known by theirs
    return any(_NAME.match(need) for need in needed)
