"""The options of `swell simulate` that say what a simulated cluster is like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from swell.api.durations import parse_duration
from swell.cli import fill_options as fill
from swell.model.errors import InvalidInput
from swell.model.job import AfterRefusal

if TYPE_CHECKING:
    from swell.model.quota import Quota
    from swell.sim.epoch_ends import EpochEnds
    from swell.sim.pool import Pool
    from swell.sim.shared_cores import CoreDivision
    from swell.sim.stage import Conditions


def read_conditions(
    *,
    cluster: str | None,
    pool: Pool | None,
    resize_cost: str,
    noise: float,
    profile_error: float,
    between_steps: str | None,
    node_mtbf: str | None,
    node_mttr: str,
    fault_rates: str,
    seed: int,
    refused: AfterRefusal,
    cores: float | None,
    sharing: CoreDivision,
    report_every: str | None,
    quota: Sequence[str],
) -> Conditions:
    """Raises InvalidInput."""
    from swell.sim.injected_faults import parse_fault_rates
    from swell.sim.stage import MAX_NOISE, Conditions

    if cluster is None and pool is None:
        raise InvalidInput("there are no nodes; give --cluster NODESxDEVICES, --pool INTERVALS.csv, or both")
    nodes, cross, devices = ("0", "x", "0") if cluster is None else cluster.partition("x")
    if not (cross and nodes.isdecimal() and devices.isdecimal()):
        raise InvalidInput(f"--cluster is {cluster!r}; write NODESxDEVICES, such as 16x8")
    return Conditions(
        nodes=int(nodes),
        devices_per_node=int(devices),
        pool=pool,
        resize_cost=resize_cost,
        noise_share=fill.share("noise", noise, most=MAX_NOISE),
        profile_error_share=fill.share("profile-error", profile_error, most=MAX_NOISE),
        epoch_ends=None if between_steps is None else _epoch_ends(between_steps),
        node_mtbf_s=None if node_mtbf is None else _seconds("node-mtbf", node_mtbf),
        node_mttr_s=_seconds("node-mttr", node_mttr),
        fault_rates=parse_fault_rates(fault_rates),
        seed=seed,
        refused=refused,
        cores=cores,
        sharing=sharing,
        report_s=None if report_every is None else _seconds("report-every", report_every),
        quotas=_quotas(quota),
    )


def _quotas(texts: Sequence[str]) -> dict[str, Quota]:
    """Raises InvalidInput."""
    from swell.api.quotas import parse_quotas

    return {tenant: quota for tenant, quota in parse_quotas(texts).items() if quota is not None}


def _epoch_ends(text: str) -> EpochEnds:
    from swell.sim.epoch_ends import EpochEnds

    duration, slash, steps = text.partition("/")
    if not slash or not steps.isdecimal() or not int(steps):
        raise InvalidInput(f"--between-steps is {text!r}; write DURATION/STEPS, such as 2s/500")
    return EpochEnds(_seconds("between-steps", duration), int(steps))


def _seconds(option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"--{option}: {error}") from None
