"""Packages that only some commands need, and that `pip install swell` leaves out."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from swell.api.installed import is_installed
from swell.model.errors import InvalidInput

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
