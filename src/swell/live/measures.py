"""What a platform is measured by, at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from swell.live.operator_tally import Counts
from swell.live.webhooks.counts import WebhookCounts
from swell.model.job import JobClass, Phase
from swell.model.view import ClusterView, JobView, NodeView


class PromiseState(StrEnum):
    """How a promise to an open job stands."""

    ON_TRACK = "on_track"
    AT_RISK = "at_risk"  #: it is expected to end after its deadline
    LATE = "late"  #: its deadline is over


class Use(StrEnum):
    """What becomes of a device; each is counted once."""

    HELD = "held"  #: by a job
    FREE = "free"
    LEAVING = "leaving"  #: of a node that gets no more work, held or not


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Counts with nothing in them may be left out."""

    cluster: ClusterView
    jobs: Mapping[tuple[Phase, JobClass], int]  #: open ones
    promises: Mapping[PromiseState, int]  #: to open jobs
    num_workers: int
    num_batches: int  #: in the journal, since the first
    counts: Counts
    webhooks: WebhookCounts = field(default_factory=WebhookCounts)


def state_of_promise(view: JobView, now_s: float, expected_s: float | None) -> PromiseState:
    """Of a job with a promise. All times are of one clock."""
    deadline_s = view.deadline_s
    if deadline_s is None:
        return PromiseState.ON_TRACK
    if deadline_s < now_s:
        return PromiseState.LATE
    return (
        PromiseState.AT_RISK if expected_s is not None and expected_s > deadline_s else PromiseState.ON_TRACK
    )


def devices_by_use(nodes: Iterable[NodeView]) -> dict[tuple[str, bool, Use], int]:
    """By kind, whether they are borrowed, and use; all uses of each kind that is there."""
    found: dict[tuple[str, bool, Use], int] = {}
    for node in nodes:
        for use in Use:
            found.setdefault((node.kind, node.is_borrowed, use), 0)
        for holder in node.devices.values():
            held = Use.FREE if holder is None else Use.HELD
            found[node.kind, node.is_borrowed, held if node.leaving is None else Use.LEAVING] += 1
    return found
