"""What the gangs of a simulated world did, piece by piece: so that anyone can work it out again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from swell.sim.gang import Training


class Segment(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A stretch of time in which a gang holds the same devices and goes at the same rate."""

    from_s: float
    until_s: float
    trains_from_s: float  #: until then it pauses; inf: it starts, saves, or waits for word after a loss
    rate_per_s: float  #: steps/s of the job's own batch, from then on
    from_step: float
    until_step: float  #: less than it had come to, if work was lost at the end
    devices: tuple[str, ...]  #: of its workers, in rank order
    joining: tuple[str, ...] = ()  #: of workers that start while these train
    global_batch: int | None = None  #: samples of a step; None: the job's own batch
    end: str = ""  #: how the gang ended with it: `suspended`, or an outcome; empty: it goes on
    share: float | None = None  #: of the cores of its nodes; None: they are not divided

    @property
    def trains(self) -> bool:
        return math.isfinite(self.trains_from_s)


class SegmentLog:
    """Keeps the segments of each job until they are taken."""

    def __init__(self) -> None:
        self._begun: dict[str, tuple[Training, Segment]] = {}  #: those whose end is to come
        self._ended: dict[str, list[Segment]] = {}

    def note(self, training: Training, now_s: float) -> None:
        """The gang is new, or what it holds or does has changed."""
        self._close(training.job.id, now_s)
        trains, step = training.rate_per_s > 0.0, training.steps_at(now_s)
        coming = () if training.change is None else training.change.target.devices
        begun = Segment(
            from_s=now_s,
            until_s=now_s,
            trains_from_s=max(now_s, training.resumes_s) if trains else math.inf,
            rate_per_s=training.rate_per_s,
            from_step=step,
            until_step=step,
            devices=training.devices,
            joining=tuple(device for device in coming if device not in training.devices),
            global_batch=training.global_batch,
            share=training.configuration.share,
        )
        self._begun[training.job.id] = training, begun

    def end(self, training: Training, now_s: float, how: str) -> None:
        """The gang is no more."""
        self._close(training.job.id, now_s, how)

    def take(self, job_id: str, now_s: float) -> tuple[Segment, ...]:
        """All of the job so far, the one that is under way too; they are forgotten."""
        self._close(job_id, now_s)
        return tuple(self._ended.pop(job_id, ()))

    def _close(self, job_id: str, now_s: float, how: str = "") -> None:
        """One of no length is left out, unless it is a gang's start or end, or on other devices."""
        ended = self._ended.setdefault(job_id, [])
        if job_id not in self._begun:
            return
        training, begun = self._begun.pop(job_id)
        trains = begun.rate_per_s > 0.0
        is_start = trains and begun.from_s == training.formed_s
        is_move = trains and bool(ended) and begun.devices != ended[-1].devices
        if how or now_s > begun.from_s or is_start or is_move:
            until_step = training.steps_at(now_s)
            ended.append(msgspec.structs.replace(begun, until_s=now_s, until_step=until_step, end=how))


def gangs(segments: Sequence[Segment]) -> Iterator[Sequence[Segment]]:
    """Those of one gang after the other."""
    first = 0
    for number, segment in enumerate(segments, start=1):
        if segment.end or number == len(segments):
            yield segments[first:number]
            first = number


def holdings(segments: Sequence[Segment]) -> Iterator[tuple[float, tuple[str, ...]]]:
    """(since, devices with a worker of the job, those too that start) at each change; none between gangs."""
    held: tuple[str, ...] = ()
    for gang in gangs(segments):
        for segment in gang:
            if segment.devices + segment.joining != held:
                held = segment.devices + segment.joining
                yield segment.from_s, held
        held = ()
        yield gang[-1].until_s, held


def starts(segments: Sequence[Segment]) -> Iterator[tuple[float, float]]:
    """(launched, began its first step) of each gang that got so far."""
    for gang in gangs(segments):
        first = next((one for one in gang if one.trains and one.trains_from_s <= one.until_s), None)
        if first is not None:
            yield gang[0].from_s, first.trains_from_s


def pauses(segments: Sequence[Segment]) -> Iterator[tuple[float, float]]:
    """(since, length) of each time in which a gang that had begun to train did not."""
    for gang in gangs(segments):
        has_begun = False
        for segment in gang:
            length_s = min(segment.trains_from_s, segment.until_s) - segment.from_s
            if has_begun and length_s > 0.0:
                yield segment.from_s, length_s
            has_begun = has_begun or segment.trains_from_s < segment.until_s
