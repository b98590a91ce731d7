"""The audit of a whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swell.sim.audit.charges import audit_charges, charge_of
from swell.sim.audit.cores import Neighbours
from swell.sim.audit.devices import audit_devices
from swell.sim.audit.differences import Difference, Differences, is_near
from swell.sim.audit.figures import audit_figures
from swell.sim.audit.pace import Pace
from swell.sim.audit.recorded import RecordedJob, jobs_of
from swell.sim.audit.steps import audit_job
from swell.sim.profiles.errors import UnknownProfile
from swell.sim.profiles.profile_set import ProfileSet
from swell.sim.run_files import RunFiles

#: Rates are recorded whole; tables are read the same way again.
RATE_SHARE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What was looked at, and what came out otherwise."""

    policy: str
    num_jobs: int
    num_segments: int
    num_devices: int  #: that were used
    differences: tuple[Difference, ...]


def audit(files: RunFiles, profiles: ProfileSet | None = None) -> Audit:
    """Steps, times, devices and figures, from the files alone: nothing of a simulator is asked.

    Args:
        profiles: what the run was simulated with, to compare the rates too, where they are without noise.

    Raises:
        InvalidInput: the files are no record.
    """
    jobs, findings = jobs_of(files), Differences()
    pace = _pace(files.figures)
    for job in jobs:
        audit_job(job, pace, findings)
    if (charge := charge_of(files.figures)) is not None:
        for job in jobs:
            audit_charges(job, charge, findings.telling(f"job {job.id}"))
    num_devices = audit_devices(jobs, _devices(files.figures), findings)
    audit_figures(jobs, files.figures["metrics"], findings)
    if profiles is not None and not files.figures["truth"]["noise"]:
        neighbours = Neighbours(jobs, files.figures)
        for job in jobs:
            _audit_rates(job, profiles, neighbours, findings, _speeds(files.figures))
    return Audit(
        policy=files.figures["policy"],
        num_jobs=len(jobs),
        num_segments=len(files.segments),
        num_devices=num_devices,
        differences=tuple(findings.found),
    )


def _pace(figures: Mapping[str, Any]) -> Pace:
    ends = figures["truth"]["epoch_ends"]
    return Pace() if ends is None else Pace(num_steps=ends[1], between_s=ends[0])


def _devices(figures: Mapping[str, Any]) -> frozenset[str] | None:
    """Names of all devices of the cluster; None where borrowed ones are among them."""
    if figures["truth"]["pool"] is not None:
        return None
    if kinds := figures["cluster"].get("kinds"):
        widths = [kind["devices_per_node"] for kind in kinds for _ in range(kind["nodes"])]
    else:
        widths = [figures["cluster"]["devices_per_node"]] * figures["cluster"]["nodes"]
    return frozenset(f"n{node}.{device}" for node, width in enumerate(widths) for device in range(width))


def _speeds(figures: Mapping[str, Any]) -> Sequence[float]:
    """How fast each node is, by its number, where kinds of device differ."""
    kinds = figures["cluster"].get("kinds", ())
    return [kind.get("speed", 1.0) for kind in kinds for _ in range(kind["nodes"])]


def _speed_of(devices: Sequence[str], speeds: Sequence[float]) -> float:
    """Speed of the nodes of a gang, which are of one kind."""
    return speeds[int(devices[0][1:].partition(".")[0])] if speeds and devices else 1.0


def _audit_rates(
    job: RecordedJob,
    profiles: ProfileSet,
    neighbours: Neighbours,
    findings: Differences,
    speeds: Sequence[float],
) -> None:
    """Check the rates of segments at the job's own batch, given the neighbours on its nodes."""
    tell = findings.telling(f"job {job.id}")
    try:
        curve = profiles.curve(job.model, job.global_batch)
    except UnknownProfile as error:
        tell(str(error))
        return
    for segment in job.segments:
        size = len(segment.devices)
        is_own = segment.global_batch in (None, job.global_batch) and size <= curve.max_workers
        for at_s, pace in neighbours.paces(job, segment) if segment.trains and is_own else ():
            rate_per_s = curve.rate_at(size) * pace * _speed_of(segment.devices, speeds)
            if not is_near(segment.rate_per_s, rate_per_s, 0.0, RATE_SHARE):
                tell(
                    f"makes {segment.rate_per_s:.6g} steps/s on {size} devices at {at_s:.3f} s, and "
                    f"{rate_per_s:.6g} by the profiles{' and its neighbours' if pace != 1.0 else ''}"
                )
