"""The fewest workers of a job whose state is divided, as far as memory is known to allow."""

from __future__ import annotations

from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.event import GangEnded


def learn_least(state: HeadState, record: JobRecord, least: int) -> None:
    """One of fewer workers has too little memory for its part: the job never has so few again."""
    if least > record.spec.min_workers:
        text = f"has {least} workers at least from now on: one of fewer ran out of memory"
        state.tell(record, "memory", text)
    record.least_by_memory = least
    state.relearn(record)


def learn_from_limit(state: HeadState, record: JobRecord, event: GangEnded) -> None:
    """The kernel ended a gang for its job's memory limit before it had finished a step: twice as many may do.

    No effect where two workers may be on a node, and so under one limit. What trial runs find out is that a
    process cannot have more memory; they have no such limit.
    """
    widest = max((len(node.devices) for node in state.cluster.nodes), default=0)
    is_divided = record.profile is not None and record.profile.divided_bytes > 0
    if not is_divided or widest >= 2 * record.spec.devices_per_worker or _has_stepped(record, event):
        return
    larger = [size for size in state.sizes_of(record).tolist() if size >= 2 * record.num_workers]
    if record.num_workers and larger:
        learn_least(state, record, larger[0])


def _has_stepped(record: JobRecord, event: GangEnded) -> bool:
    """Whether the gang has told of a step: then its part of the state fitted, and something else did not."""
    first, seen = record.progress.first_step, record.progress.reported
    is_told = seen is not None and seen.generation == event.generation and seen.steps > first
    return is_told or event.steps > first
