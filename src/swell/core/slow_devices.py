"""Devices that are slower than others of their kind, in job after job."""

from __future__ import annotations

from statistics import median

from swell.core.record import JobRecord
from swell.core.state import DeviceSlowness, HeadState, SlowStretch
from swell.model.event import StepsReported
from swell.model.usage import SlowDevice

#: A device is slow if a sample takes it so many times as long as the others of its gang. It is fast again as
#: soon as one measurement is below the second factor.
SLOW_FACTOR, FAST_FACTOR = 1.3, 1.15
#: It has to be slow for so many steps, of so many jobs: else a job on a neighbouring device may be the cause.
NUM_STEPS, NUM_JOBS = 200, 2


def note_sample_times(state: HeadState, record: JobRecord, event: StepsReported) -> None:
    """The workers of a job have compared their times. All nodes of a core have devices of one kind."""
    times_s = {one: time_s for one, time_s in event.sample_s.items() if one in state.cluster.node_of}
    for device, sample_s in times_s.items():
        others = [time_s for one, time_s in times_s.items() if one != device]
        if others and sample_s > 0.0:
            _note_factor(state, record, device, sample_s / max(median(others), 1e-9), event.steps)


def _note_factor(state: HeadState, record: JobRecord, device: str, factor: float, steps: int) -> None:
    if factor < FAST_FACTOR:
        state.slowness.pop(device, None)
    if factor < SLOW_FACTOR:
        return
    known = state.slowness.setdefault(device, DeviceSlowness())
    own = next((one for one in known.stretches if one.job_id == record.id), None)
    own = own or SlowStretch(record.id, steps, steps, factor)
    own.first_steps, own.last_steps, own.factor = min(own.first_steps, steps), steps, factor
    long = [one for one in known.stretches if one is not own and _is_long(one)]
    known.stretches = [*long[-NUM_JOBS:], own]
    if known.since_s is None and len([*filter(_is_long, known.stretches)]) >= NUM_JOBS:
        known.since_s = state.now_s
        state.tell(record, "slow_device", f"its device {device} {_why(known)}; jobs get other devices first")


def _is_long(stretch: SlowStretch) -> bool:
    return stretch.last_steps - stretch.first_steps >= NUM_STEPS


def _why(known: DeviceSlowness) -> str:
    long = [*filter(_is_long, known.stretches)]
    factor, jobs = min(one.factor for one in long), " and ".join(one.job_id for one in long[-NUM_JOBS:])
    return f"takes {factor:.2g} times as long for a sample as others of its kind, in jobs {jobs}"


def slow_devices(state: HeadState) -> list[SlowDevice]:
    """Those that are there."""
    node_of = state.cluster.node_of
    return [
        SlowDevice(device=device, node=node_of[device], since_s=known.since_s, why=_why(known))
        for device, known in state.slowness.items()
        if device in node_of and known.since_s is not None
    ]


def forget_node(state: HeadState, name: str) -> None:
    """The node is lost: if one of its name joins, it may be another machine."""
    lost = [device for device in state.slowness if state.cluster.node_of.get(device) == name]
    for device in lost:
        del state.slowness[device]
