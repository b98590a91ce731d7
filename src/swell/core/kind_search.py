"""A job that may have one of several kinds of device, until it has started on one of them."""

from __future__ import annotations

import msgspec

from swell.core.kind_choice import named_kinds, smallest_gang_on
from swell.model.event import AnyEvent, JobEvent
from swell.model.job import JobSpec
from swell.model.plan import Refusal


class RefusedKind(msgspec.Struct, frozen=True):
    """The answer of one kind that could not promise the job's deadline."""

    earliest_deadline_s: float | None  #: that it could promise; None: it named none
    text: str


class KindSearch(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """A part of the record of a job whose kind the head chooses."""

    why: str = ""  #: why it has the kind that it has
    refused: dict[str, RefusedKind] = {}  #: by kind, of those that were asked for a promise
    least_workers: dict[str, int] = {}  #: by kind that it has left, as its trial run found there
    goal: str = ""  #: kind that is to have it next; empty: the best one that was not asked yet
    is_settled: bool = False  #: every kind was asked: the answer of the one that it has counts


class KindChosen(JobEvent, frozen=True, kw_only=True):
    """The platform has chosen a kind for a job. It is never in a journal: a replay makes the same choice."""

    kind: str
    why: str


#: What a core handles.
HeadEvent = AnyEvent | KindChosen


def untried(spec: JobSpec, search: KindSearch, own: str, devices: dict[str, int]) -> tuple[str, ...]:
    """Kinds that the job names, with enough devices, which have not been asked for a promise.

    Args:
        own: kind that it has now.
        devices: that take work, by kind.
    """
    kinds = named_kinds(spec.kinds, tuple(devices))
    left = (kind for kind in kinds if kind != own and kind not in search.refused)
    return tuple(kind for kind in left if devices[kind] >= smallest_gang_on(kind, spec, search.least_workers))


def best_refused(refused: dict[str, RefusedKind]) -> str:
    """The kind that could promise the earliest deadline, the first asked of equal ones; empty: none could."""
    offers = {kind: one.earliest_deadline_s for kind, one in refused.items()}
    known = {kind: at_s for kind, at_s in offers.items() if at_s is not None}
    return min(known, key=lambda kind: known[kind]) if known else ""


def combined(refused: dict[str, RefusedKind]) -> Refusal:
    """The refusals of all kinds as one: it offers the earliest deadline of all."""
    best = best_refused(refused)
    text = "; ".join(f"on {kind}: {one.text}" for kind, one in refused.items())
    if not best:
        return Refusal(earliest_deadline_s=None, text=text)
    return Refusal(
        earliest_deadline_s=refused[best].earliest_deadline_s, text=f"{text}; {best} could be ready first"
    )
