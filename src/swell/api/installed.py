"""What is installed for the interpreter of the platform, with which its workers run, and what is lacking."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

from swell.model.errors import InvalidInput


def is_installed(module: str) -> bool:
    """Whether this interpreter could import it; nothing is imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def lack_of_torch() -> str:
    """What is to be done before the interpreter of the platform can train; empty if nothing."""
    return "" if is_installed("torch") else how_to_install("torch", sys.executable)


def how_to_install(what: str, python: str) -> str:
    """Why workers cannot run with this interpreter, which lacks `what`, and the remedy."""
    return (
        f"{what} is not installed for {python}, the interpreter of the workers; run `{python} "
        "-m pip install 'swell[torch]'`, or name another interpreter with `python:` "
        "(`--python`)"
    )


#: Module to package, where the names differ.
PACKAGES = {"sklearn": "scikit-learn"}


def require(modules: Sequence[str], what: str, extra: str) -> None:
    """Raises InvalidInput, with the command that installs them, where `what` lacks some of these."""
    missing = [PACKAGES.get(module, module) for module in modules if not is_installed(module)]
    if missing:
        raise InvalidInput(
            f"{what} needs {' and '.join(missing)} for {sys.executable}; "
            f"`{sys.executable} -m pip install 'swell[{extra}]'`"
        )
