"""The options about borrowed nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import seconds
from swell.cli.output import warn
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.sim.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOptions:
    """Which borrowed nodes there are, and when."""

    pool: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Borrow nodes while this log says that they are idle: rows of node,start_s,end_s[,devices] "
            "in any order, end_s -1 for a node that was still idle; may be gzipped (.gz).",
        ),
    ] = None
    pool_nodes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Only these nodes of the pool; one name a line.")
    ] = None
    pool_window: Annotated[
        str | None,
        typer.Option(
            metavar="FROM:UNTIL",
            help="Only this part of the pool's log, in its seconds. The first job is submitted at FROM, "
            "and all nodes leave at UNTIL. Default: from its beginning, without an end.",
        ),
    ] = None
    pool_warning: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Say so long before a node of the pool leaves that it will: its jobs move in time. "
            "Default: there is no warning.",
        ),
    ] = None

    @property
    def files(self) -> list[Path]:
        """Files that are read."""
        return [file for file in (self.pool, self.pool_nodes) if file is not None]

    def read(self) -> Pool | None:
        """Read the pool; None without `--pool`. Raises InvalidInput."""
        from swell.sim.pool_file import read_pool

        if self.pool is None:
            for option, value in (("--pool-nodes", self.pool_nodes), ("--pool-window", self.pool_window)):
                if value is not None:
                    raise InvalidInput(
                        f"{option} chooses a part of a pool; give the log of idle nodes with --pool"
                    )
            if self.pool_warning is not None:
                raise InvalidInput("--pool-warning is about a pool; give the log of idle nodes with --pool")
            return None
        pool = read_pool(self.pool)
        if self.pool_nodes is not None:
            pool = _of_nodes(pool, self.pool_nodes)
        if self.pool_window is not None:
            pool = _within(pool, self.pool_window)
        if self.pool_warning is not None:
            pool = replace(pool, warning_s=seconds("pool-warning", self.pool_warning))
        return pool


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
