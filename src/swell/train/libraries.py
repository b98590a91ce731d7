"""Libraries with training loops of their own, which become elastic when a job's script imports them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

#: The module of a library that is to be imported, and what has the function `adapt` for it.
ADAPTERS = {
    "accelerate": "swell.train.accelerate",
    "lightning.fabric.fabric": "swell.train.lightning.fabric",
    "lightning.pytorch": "swell.train.lightning.adapter",
    "lightning_fabric.fabric": "swell.train.lightning.fabric",
    "pytorch_lightning": "swell.train.lightning.adapter",
    "transformers.trainer": "swell.train.transformers",
}
RESTART = "or submit the script with --elasticity restart, where each resize starts it again"


class LibraryFinder:
    """Has a library adapted as soon as a script has imported it."""

    def __init__(self) -> None:
        self._coming = dict(ADAPTERS)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        adapter = self._coming.pop(name, None)
        if adapter is None:
            return None
        spec = find_spec(name)  # of the other finders, for this one knows it no more
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_adapt(module: ModuleType) -> None:
                run(module)
                own = sys.modules.get(adapter)
                if own is None or hasattr(own, "adapt"):  # else the script imports that by itself
                    import_module(adapter).adapt()

            spec.loader.exec_module = run_and_adapt  # type: ignore[method-assign]  # of this one module
        return spec


def adapt_libraries() -> None:
    """Have libraries be elastic in this process: those that it has imported, and those that it will."""
    for name, adapter in ADAPTERS.items():
        if name in sys.modules:
            import_module(adapter).adapt()
    sys.meta_path.insert(0, LibraryFinder())


def check_version(library: str, installed: str, tried: str) -> None:
    """Say so where another minor version is installed than the one with which this was tried."""
    if installed.split(".")[:2] != tried.split(".")[:2]:
        sys.stderr.write(f"{library} {installed} is elastic by code that was tried with {tried}\n")


def refuse(library: str, what: str) -> None:
    """Raises ValueError: the script asks a library for what does not go with workers that come and go."""
    raise ValueError(
        f"{library} was given {what}, which a live elastic job cannot have: take it out, {RESTART}"
    )
