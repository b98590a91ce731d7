"""Options of a simulation about its nodes, and those that it has in common with `swell trace`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swell.cli.options import seconds
from swell.cli.output import warn
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.model.node import Islands
    from swell.sim.pool import Pool

Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of the trace. Default: detected from its content."),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", hidden=True, help="Refuse a trace that has malformed lines instead of skipping them."
    ),
]
Profiles = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER|NAME",
        help="Throughput profiles: a folder of tables MODEL.csv, or hu, law, law:EXPONENT, "
        "saxena. Missing fields are filled from them.",
    ),
]


Cluster = Annotated[
    str | None,
    typer.Option(
        metavar="[RACKSx]NODESxDEVICES[/ISLANDS]|KIND=NODESxDEVICES[*SPEED],...",
        help="Equal nodes: 16x8 means 128 devices; 2x8x8/4/2 the same in two racks, where the devices of "
        "each node are in islands of 4 and, within these, of 2. Kinds of device: a100=4x8*2.5,v100=2x8, "
        "where jobs on a100 run at 2.5 times the rates of the profiles; a job may have each kind, unless "
        "the trace names some in its column `kind`. Not needed with --pool.",
    ),
]
Quotas = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        metavar="TENANT=DEVICES|SHARE",
        help="Most devices that jobs of a tenant use together: ana=8, or ben=25% of those there are; "
        "may be repeated. Default: any number.",
    ),
]


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
        Path | None,
        typer.Option(metavar="FILE", hidden=True, help="Only these nodes of the pool; one name a line."),
    ] = None
    pool_window: Annotated[
        str | None,
        typer.Option(
            metavar="FROM:UNTIL",
            hidden=True,
            help="Only this part of the pool's log, in its seconds. The first job is submitted at FROM, "
            "and all nodes leave at UNTIL. Default: from its beginning, without an end.",
        ),
    ] = None
    pool_warning: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            hidden=True,
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
        from swell.sim.pool import read_pool

        if self.pool is None:
            for name in ("pool_nodes", "pool_window", "pool_warning"):
                if getattr(self, name) is not None:
                    option = f"--{name.replace('_', '-')}"
                    raise InvalidInput(f"{option} is about a pool; give the log of idle nodes with --pool")
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
    from swell.sim.pool import read_names

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


def nodes_of(cluster: str | None, pool: Pool | None) -> dict[str, Any]:
    """Fields of `Conditions` about nodes. Raises InvalidInput."""
    from swell.sim.kind_nodes import parse_kinds

    if cluster is None and pool is None:
        raise InvalidInput("there are no nodes; give --cluster NODESxDEVICES, --pool INTERVALS.csv, or both")
    text = "0x0" if cluster is None else cluster
    kinds = parse_kinds(text) if "=" in text else ()
    racks, nodes, devices, islands = _shape("0x0" if kinds else text)
    return {
        "nodes": racks * nodes,
        "devices_per_node": devices,
        "racks": racks,
        "islands": islands,
        "pool": pool,
        "kinds": kinds,
    }


def _shape(text: str) -> tuple[int, int, int, Islands]:
    """Racks, nodes of each, devices of each node, and their islands. Raises InvalidInput."""
    from swell.model.node import InvalidIslands, parse_islands

    numbers, has_islands, islands = text.partition("/")
    words = numbers.split("x")
    if len(words) > 3 or not all(word.isdecimal() for word in words):
        raise InvalidInput(
            f"--cluster is {text!r}; write NODESxDEVICES, such as 16x8, or RACKSxNODESxDEVICES, and islands "
            "behind it, such as 2x8x8/4/2"
        )
    racks, nodes, devices = map(int, ["1", "1", *words][-3:])
    if racks < 1:
        raise InvalidInput(f"--cluster is {text!r}; there is at least one rack")
    try:
        return racks, nodes, devices, parse_islands(islands, devices) if has_islands else ()
    except InvalidIslands as error:
        raise InvalidInput(f"--cluster is {text!r}: {error}") from error
