"""On PYTHONPATH this puts a platform without processes in the place of the real one."""

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

FAKE = Path(__file__).parents[1] / "fake_assemble.py"


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return importlib.util.spec_from_file_location(name, FAKE) if name == "swell.assemble" else None


class _Hider(importlib.abc.MetaPathFinder):
    """As where it is not installed: `HIDDEN_MODULES=torch,sklearn`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> None:
        if name in os.environ.get("HIDDEN_MODULES", "").split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _Hider())
sys.meta_path.insert(0, _Finder())
