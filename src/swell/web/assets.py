"""The files of this folder, wherever the package is installed."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

#: Charts of others: see static/vendor/README.md.
UPLOT_SCRIPT = "static/vendor/uplot/uPlot.iife.min.js"
UPLOT_STYLE = "static/vendor/uplot/uPlot.min.css"


def asset(name: str) -> Traversable:
    """The file of this name, as `static/charts.js`."""
    return files("swell.web").joinpath(name)


def read_asset(name: str) -> str:
    """Its text. Raises FileNotFoundError."""
    return asset(name).read_text(encoding="utf-8")


@cache
def uplot_version() -> str:
    """Return the version of uPlot, as its script says."""
    found = re.match(r"/\*! \S+ \(v([\d.]+)\)", read_asset(UPLOT_SCRIPT))
    return found[1] if found else "of an unknown version"
