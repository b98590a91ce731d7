"""What was commanded and is not answered yet, as the command that would bring it about."""

from __future__ import annotations

from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.command import AnyCommand, LaunchGang, ProfileJob, Reconfigure, StopGang, SuspendGang


def trial_run(state: HeadState, record: JobRecord) -> ProfileJob:
    """Return the command for a new job's trial run, on the kind of device that the cluster has."""
    nodes, sizes = state.usable.nodes or state.cluster.nodes, state.sizes_of(record)
    powers = sizes[(sizes & (sizes - 1)) == 0]  # a curve needs no more points than these
    return ProfileJob(
        job_id=record.id,
        spec=record.spec,
        sizes=tuple((powers if powers.size else sizes).tolist()),
        device_kind=nodes[0].kind if nodes else "",
        attempt=record.backoff.num_trials,
        avoid=tuple(sorted(state.warned_devices.union(_barred_devices(state, record)))),
    )


def _barred_devices(state: HeadState, record: JobRecord) -> set[str]:
    nodes = state.cluster.nodes if record.ruled_out else ()
    return {device for node in nodes if node.name in record.ruled_out for device in node.devices}


def launch_of(record: JobRecord) -> LaunchGang:
    """Return the command that launches the record's gang, with its goal as target."""
    return LaunchGang(
        job_id=record.id,
        generation=record.generation,
        target=record.gang.goal,
        spec=record.spec,
        total_steps=record.known_total,
        max_local_batch=record.max_local_batch,
    )


def pending(state: HeadState, record: JobRecord) -> AnyCommand | None:
    """The command that the job's next answer is to; None if none is out."""
    job_id, generation = record.id, record.generation
    if record.is_profiling:
        return trial_run(state, record)
    if record.gang.is_ending:
        return StopGang(job_id=job_id, generation=generation)
    if record.gang.is_launching:
        return launch_of(record)
    if record.gang.awaits_change:
        return Reconfigure(job_id=job_id, generation=generation, target=record.gang.goal)
    return SuspendGang(job_id=job_id, generation=generation) if record.gang.is_saving else None
