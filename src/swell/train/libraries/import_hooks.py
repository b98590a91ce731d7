"""Modules of libraries are changed as soon as the script imports them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


def after_import(changes: dict[str, Callable[[ModuleType], None]]) -> None:
    """Each change is made once, after its module was imported; at once if it is there already.

    A module that was preloaded is there when the script begins.
    """
    for name in [name for name in changes if name in sys.modules]:
        changes.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, _ChangingFinder(changes))


class _ChangingFinder(MetaPathFinder):
    def __init__(self, changes: dict[str, Callable[[ModuleType], None]]) -> None:
        self._changes = changes

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._changes:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._changes.pop(name)(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
