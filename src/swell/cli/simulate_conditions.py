"""Options of a simulation: the cluster, its conditions, and what a log of jobs lacks."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import msgspec
import typer

from swell.cli.options import seconds
from swell.cli.output import warn
from swell.model.errors import InvalidInput
from swell.model.job import AfterRefusal

if TYPE_CHECKING:
    from swell.model.islands import Islands
    from swell.sim.conditions import Conditions
    from swell.sim.epoch_ends import EpochEnds
    from swell.sim.pool import Pool
    from swell.sim.shared_cores import CoreDivision
    from swell.sim.traces.rules import FillRules

Format = Annotated[
    str | None,
    typer.Option("--format", metavar="NAME", help="Format of the trace. Default: detected from its content."),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse a trace that has malformed lines instead of skipping them.")
]
Profiles = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER|NAME",
        help="Throughput profiles: a folder of tables MODEL.csv, or bftrainer, hu, law, "
        "law:EXPONENT. Missing fields are filled from them.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class FillOptions:
    """Rules by which missing values of a trace are filled in."""

    seed: Annotated[int, typer.Option(metavar="N", help="Random seed.")] = 0
    deadlines: Annotated[
        str, typer.Option(metavar="WHICH", help="Which deadlines to draw at random: missing, all or none.")
    ] = "missing"
    tightness: Annotated[
        str,
        typer.Option(
            metavar="LOW:HIGH",
            help="Range of a drawn deadline: submission plus this many times the job's duration.",
        ),
    ] = "0.5:1.5"
    best_effort: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Share of the jobs without a deadline that stay without one (best_effort)."
        ),
    ] = 0.0
    soft: Annotated[float, typer.Option(metavar="SHARE", help="Share of the deadlines that are soft.")] = 0.0
    draw_losses: Annotated[
        bool,
        typer.Option("--draw-losses", help="Draw a loss curve for each job of which the trace has none."),
    ] = False

    def rules(self) -> FillRules:
        """Raises InvalidInput for an option that cannot be."""
        from swell.sim.traces.rules import FillRules

        return FillRules(
            seed=self.seed,
            deadlines=_choice("deadlines", self.deadlines),
            tightness=_range(self.tightness),
            best_effort_share=self.best_effort,
            soft_share=self.soft,
            losses="drawn" if self.draw_losses else "given",
        )


@dataclass(frozen=True, kw_only=True)
class LogFillOptions(FillOptions):
    """Those rules, and one for a log whose jobs name models."""

    unknown: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="Jobs whose model has no profile: refuse the trace, "
            "draw another model, or drop the job: refuse, draw, "
            "drop.",
        ),
    ] = "refuse"

    def rules(self) -> FillRules:
        return msgspec.structs.replace(super().rules(), unknown=_choice("unknown", self.unknown))


def _choice(field: str, word: str) -> Any:
    from swell.sim.traces.rules import FillRules

    choices = get_args(get_type_hints(FillRules)[field])
    if word not in choices:
        raise InvalidInput(f"--{field} is {word!r}; choose one of {', '.join(choices)}")
    return word


def _range(text: str) -> tuple[float, float]:
    low, colon, high = text.partition(":")
    try:
        return float(low), float(high if colon else low)
    except ValueError:
        raise InvalidInput(f"--tightness is {text!r}; write LOW:HIGH, as 0.5:1.5") from None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionOptions:
    """How the truth differs from what profiles say, which nodes there are, and what users do."""

    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="[RACKSx]NODESxDEVICES[/ISLANDS]|KIND=NODESxDEVICES[*SPEED],...",
            help="Equal nodes: 16x8 means 128 devices; 2x8x8/4/2 the same in two racks, where the devices of "
            "each node are in islands of 4 and, within these, of 2. Kinds of device: a100=4x8*2.5,v100=2x8, "
            "where jobs on a100 run at 2.5 times the rates of the profiles; a job may have each kind, unless "
            "the trace names some in its column `kind`. Not needed with --pool.",
        ),
    ] = None
    resize_cost: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="Cost of resizes: changed (resized jobs pay ElasticFlow's amounts), "
            "everyone (all jobs pay at every event, as in its simulator), profile (as "
            "measured live), delay:SECONDS (of starts and growths), none, or a number of seconds.",
        ),
    ] = "changed"
    noise: Annotated[
        float,
        typer.Option(metavar="S", help="True rates differ from the profile by a factor exp(S x normal)."),
    ] = 0.0
    profile_error: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="Rates measured in trial runs differ from the true ones by a factor exp(S x normal).",
        ),
    ] = 0.0
    between_steps: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION/STEPS",
            help="Each job makes no step for so long after every so many, as one that evaluates: 2s/500. "
            "Default: never.",
        ),
    ] = None
    cores: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="Cores of each node of --cluster, which the jobs on it share. Default: each device has "
            "its own.",
        ),
    ] = None
    cpu_shares: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="What a job's CPU share means: weight (others get what a job does not use) or quota (it "
            "gets no more than its share of all cores).",
        ),
    ] = "weight"
    interference: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Each halving of a job's part of the cores in use of a node also makes its steps longer "
            "by this share.",
        ),
    ] = 0.0
    report_every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Time between two reports of a job. Default: 1s where jobs tell their losses; 5m where the "
            "speed of jobs differs from their profiles; else never.",
        ),
    ] = None
    node_mtbf: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Mean time between failures of a node. Default: nodes never fail."
        ),
    ] = None
    node_mttr: Annotated[
        str, typer.Option(metavar="DURATION", help="Mean time until a failed node is back.")
    ] = "1h"
    save_time: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Time that training stands still for a checkpoint. Default: checkpoints take no time.",
        ),
    ] = None
    fault_rates: Annotated[
        str,
        typer.Option(
            metavar="WHAT=SHARE,...",
            help="Shares of trial runs (trial), launches (launch), resizes (resize) and suspensions "
            "(suspend) that fail, of resizes and suspensions that lose a worker (loss), and of starts that "
            "give a warning (warning).",
        ),
    ] = ""
    refused: Annotated[
        AfterRefusal,
        typer.Option(
            help="What becomes of strict jobs that are refused: they end, or run as soft jobs with their "
            "deadlines, as with `swell submit --or-soft`."
        ),
    ] = AfterRefusal.END
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT=DEVICES|SHARE",
            help="Most devices that jobs of a tenant use together: ana=8, or ben=25% of those there are; "
            "may be repeated. Default: any number.",
        ),
    ] = None

    def conditions(self, seed: int, pool: Pool | None) -> Conditions:
        """Raises InvalidInput."""
        from swell.api.quotas import parse_quotas
        from swell.sim.conditions import Conditions
        from swell.sim.injected_faults import parse_fault_rates
        from swell.sim.kind_nodes import parse_kinds

        if self.cluster is None and pool is None:
            raise InvalidInput(
                "there are no nodes; give --cluster NODESxDEVICES, --pool INTERVALS.csv, or both"
            )
        text = "0x0" if self.cluster is None else self.cluster
        kinds = parse_kinds(text) if "=" in text else ()
        racks, nodes, devices, islands = _shape("0x0" if kinds else text)
        quotas = parse_quotas(self.quota or [])
        return Conditions(
            nodes=racks * nodes,
            devices_per_node=devices,
            racks=racks,
            islands=islands,
            pool=pool,
            resize_cost=self.resize_cost,
            noise_share=self.noise,
            profile_error_share=self.profile_error,
            epoch_ends=None if self.between_steps is None else _epoch_ends(self.between_steps),
            node_mtbf_s=None if self.node_mtbf is None else seconds("node-mtbf", self.node_mtbf),
            node_mttr_s=seconds("node-mttr", self.node_mttr),
            save_s=0.0 if self.save_time is None else seconds("save-time", self.save_time),
            fault_rates=parse_fault_rates(self.fault_rates),
            seed=seed,
            refused=self.refused,
            cores=self.cores,
            sharing=_sharing(self.cpu_shares, self.interference),
            report_s=None if self.report_every is None else seconds("report-every", self.report_every),
            quotas={tenant: quota for tenant, quota in quotas.items() if quota is not None},
            kinds=kinds,
        )


def _shape(text: str) -> tuple[int, int, int, Islands]:
    """Racks, nodes of each, devices of each node, and their islands. Raises InvalidInput."""
    from swell.model.islands import InvalidIslands, parse_islands

    numbers, has_islands, islands = text.partition("/")
    words = numbers.split("x")
    if len(words) not in (2, 3) or not all(word.isdecimal() for word in words):
        raise InvalidInput(
            f"--cluster is {text!r}; write NODESxDEVICES, such as 16x8, or RACKSxNODESxDEVICES, and islands "
            "behind it, such as 2x8x8/4/2"
        )
    racks, nodes, devices = map(int, ["1", *words][-3:])
    if racks < 1:
        raise InvalidInput(f"--cluster is {text!r}; there is at least one rack")
    try:
        return racks, nodes, devices, parse_islands(islands, devices) if has_islands else ()
    except InvalidIslands as error:
        raise InvalidInput(f"--cluster is {text!r}: {error}") from error


def _epoch_ends(text: str) -> EpochEnds:
    from swell.sim.epoch_ends import EpochEnds

    duration, slash, steps = text.partition("/")
    if not slash or not steps.isdecimal() or not int(steps):
        raise InvalidInput(f"--between-steps is {text!r}; write DURATION/STEPS, such as 2s/500")
    return EpochEnds(seconds("between-steps", duration), int(steps))


def _sharing(cpu_shares: str, interference: float) -> CoreDivision:
    """Raises InvalidInput for a mode that there is not."""
    from swell.model.share_mode import ShareMode
    from swell.sim.contention import RULES
    from swell.sim.shared_cores import CoreDivision

    if cpu_shares not in [*RULES]:
        raise InvalidInput(f"--cpu-shares is {cpu_shares!r}; choose one of {', '.join(RULES)}")
    return CoreDivision(cpu_shares=ShareMode(cpu_shares), interference_share=interference)
