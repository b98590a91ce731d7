"""The options of `swell simulate` that say what a simulated cluster is like, and its users."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import seconds
from swell.model.errors import InvalidInput
from swell.model.job import AfterRefusal

if TYPE_CHECKING:
    from swell.model.islands import Islands
    from swell.sim.conditions import Conditions
    from swell.sim.epoch_ends import EpochEnds
    from swell.sim.pool import Pool
    from swell.sim.shared_cores import CoreDivision


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
