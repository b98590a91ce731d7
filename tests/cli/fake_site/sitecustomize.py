"""On PYTHONPATH this puts a platform without processes in the place of the real one."""

import importlib.abc
import importlib.util
import os
import sys
from pathlib import Path

FAKE = Path(__file__).parents[1] / "fake_assemble.py"


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, FAKE) if name == "swell.assemble" else None


class _Hider(importlib.abc.MetaPathFinder):
    """As where it is not installed: `HIDDEN_MODULES=torch,sklearn`."""

    def find_spec(self, name, path=None, target=None):
        if name in os.environ.get("HIDDEN_MODULES", "").split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, _Hider())
sys.meta_path.insert(0, _Finder())
