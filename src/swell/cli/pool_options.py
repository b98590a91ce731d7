"""The options about borrowed nodes."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from swell.api.durations import parse_duration
from swell.cli.output import warn
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.sim.pool import Pool


def read_pool_options(
    file: Path | None, nodes: Path | None, window: str | None, warning: str | None = None
) -> Pool | None:
    """The pool, or None without `--pool`. Raises InvalidInput."""
    if file is None:
        for option, value in (("--pool-nodes", nodes), ("--pool-window", window)):
            if value is not None:
                raise InvalidInput(
                    f"{option} chooses a part of a pool; give the log of idle nodes with --pool"
                )
        if warning is not None:
            raise InvalidInput("--pool-warning is about a pool; give the log of idle nodes with --pool")
        return None
    from swell.sim.pool_file import read_pool

    pool = read_pool(file)
    if nodes is not None:
        pool = _of_nodes(pool, nodes)
    if window is not None:
        pool = _within(pool, window)
    return pool if warning is None else replace(pool, warning_s=_warning_s(warning))


def _warning_s(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"--pool-warning: {error}") from error


def _of_nodes(pool: Pool, file: Path) -> Pool:
    from swell.sim.pool_file import read_names

    names = frozenset(read_names(file))
    missing = names.difference(one.node for one in pool.intervals)
    if len(missing) == len(names):
        raise InvalidInput(f"--pool-nodes: {pool.source} has none of the nodes of {file}")
    if missing:
        warn(f"{len(missing)} of the {len(names)} nodes of {file} are never idle in {pool.source}")
    return pool.of_nodes(names)


def _within(pool: Pool, window: str) -> Pool:
    first, colon, last = window.partition(":")
    try:
        from_s, until_s = float(first), float(last)
    except ValueError:
        from_s, until_s = math.nan, math.nan
    if not (colon and 0.0 <= from_s < until_s < math.inf):
        raise InvalidInput(
            f"--pool-window is {window!r}; write FROM:UNTIL in seconds of the log, such as 72743:247631"
        )
    part = pool.within(from_s, until_s)
    if not part.intervals:
        raise InvalidInput(
            f"--pool-window: {pool.source} has no idle node between {from_s:g} s and {until_s:g} s"
        )
    return part
