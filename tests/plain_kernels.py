"""Modules as plain Python that may be compiled, and those that call them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import swell

PACKAGE = Path(swell.__file__).parent
#: What is compiled has a .pxd file beside it: `setup.py`.
KERNELS = [file for file in sorted(PACKAGE.rglob("*.pxd")) if file.with_suffix(".py").exists()]


def stale_kernels() -> list[Path]:
    """Machine code that is older than what it was compiled from."""
    return [
        built
        for file in KERNELS
        for built in file.parent.glob(f"{file.stem}.*.so")
        if built.stat().st_mtime < max(file.stat().st_mtime, file.with_suffix(".py").stat().st_mtime)
    ]


@contextmanager
def plain(*names: str) -> Iterator[list[ModuleType]]:
    """Within it these modules are imported from their source; each may import those that are named before."""
    before = {name: importlib.import_module(name) for name in names}
    loaded = []
    try:
        for name, compiled in before.items():
            file = PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None and spec.loader is not None and compiled.__spec__ is not None
            loaded.append(importlib.util.module_from_spec(spec))
            _put(name, loaded[-1])
            spec.loader.exec_module(loaded[-1])
        yield loaded
    finally:
        for name, compiled in before.items():
            _put(name, compiled)


def _put(name: str, module: ModuleType) -> None:
    parent, _, last = name.rpartition(".")
    sys.modules[name] = module
    setattr(sys.modules[parent], last, module)
