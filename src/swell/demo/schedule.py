"""Who comes when: the cast of the demo as data, and the schedule that submits it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swell.model.deadline_state import is_measured
from swell.model.job import JobClass, MetricTarget, Phase
from swell.model.view import JobView

NUM_DEVICES = 8
#: Samples a paced device takes each second: eight of them are no more than two slow cores can do.
PACE_PER_S = 100.0
PACED_DEVICES = f"paced:1x{NUM_DEVICES}@{PACE_PER_S:g}"  #: one node
#: An offer is what could be promised at that instant. Others do not stand still, so a second try allows more.
SECOND_TRY_SLACK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoScript:
    """A training script of this package and what is known of it."""

    script: str  #: file name
    global_batch: int


CNN = DemoScript(script="cnn.py", global_batch=96)
VAE = DemoScript(script="vae.py", global_batch=96)
GRU = DemoScript(script="gru.py", global_batch=64)
TRANSFORMER = DemoScript(script="transformer.py", global_batch=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """One job of the cast."""

    at_s: float  #: submitted so long after the trial run of the first job, which comes at once
    name: str
    workload: DemoScript
    epochs: int
    job_class: JobClass
    bar: MetricTarget  #: what the trained model must reach
    deadline_after_s: float | None = None  #: after its submission
    second_try: str | None = None  #: if it is refused, submit it again by the offer, under this name


def _accuracy(value: float) -> MetricTarget:
    return MetricTarget(name="accuracy", value=value)


def _loss(nats: float) -> MetricTarget:
    return MetricTarget(name="held_out_loss", value=nats, at_least=False)


#: Work is in device-seconds at PACE_PER_S. Bars leave room: what seeds 0 to 2 reach alone stands beside each.
CAST = (
    # Alone at first, so it has the whole cluster; gives way to promises and grows again. 144 d-s.
    # 25.2 to 25.4.
    DemoJob(
        at_s=0, name="vae-large", workload=VAE, epochs=10, job_class=JobClass.BEST_EFFORT, bar=_loss(25.8)
    ),
    # 86 d-s in 55 s, of which a trial run takes some: two devices are too few. 0.942 to 0.961.
    DemoJob(
        at_s=6,
        name="cnn-review",
        workload=CNN,
        epochs=6,
        job_class=JobClass.STRICT,
        bar=_accuracy(0.92),
        deadline_after_s=55,
    ),
    # 82 d-s in a minute, but promises come first. 1.74 to 1.76.
    DemoJob(
        at_s=14,
        name="gru-draft",
        workload=GRU,
        epochs=2,
        job_class=JobClass.SOFT,
        bar=_loss(1.9),
        deadline_after_s=60,
    ),
    # 86 d-s in 10 s: all eight devices would need 11. Refused, with an offer.
    DemoJob(
        at_s=24,
        name="cnn-rush",
        workload=CNN,
        epochs=6,
        job_class=JobClass.STRICT,
        bar=_accuracy(0.92),
        deadline_after_s=10,
        second_try="cnn-second-try",
    ),
    # 123 d-s. 2.12 to 2.22.
    DemoJob(
        at_s=30,
        name="transformer",
        workload=TRANSFORMER,
        epochs=3,
        job_class=JobClass.BEST_EFFORT,
        bar=_loss(2.4),
    ),
    # 82 d-s in 80 s, on a cluster with promises to keep: others shrink for it. 1.74 to 1.76.
    DemoJob(
        at_s=40,
        name="gru-release",
        workload=GRU,
        epochs=2,
        job_class=JobClass.STRICT,
        bar=_loss(1.9),
        deadline_after_s=80,
    ),
    # 57 d-s. 26.5 to 26.9.
    DemoJob(
        at_s=48, name="vae-small", workload=VAE, epochs=4, job_class=JobClass.BEST_EFFORT, bar=_loss(27.5)
    ),
    # 72 d-s in 75 s. 0.928 to 0.939.
    DemoJob(
        at_s=55,
        name="cnn-nightly",
        workload=CNN,
        epochs=5,
        job_class=JobClass.STRICT,
        bar=_accuracy(0.9),
        deadline_after_s=75,
    ),
)


#: A part whose time has come, and its deadline in seconds since 1970.
Submission = tuple[DemoJob, float | None]


class DemoSchedule:
    """Says what is to be submitted now, each thing once.

    The first part comes at once, and alone until its trial run is over: on a machine on which nothing has run
    yet the import of torch alone may take half a minute, in which no job has a promise.
    """

    def __init__(self, cast: Sequence[DemoJob]) -> None:
        self._waiting = sorted(cast, key=lambda part: part.at_s)
        self._tried_out_s: float | None = None  # when the trial run of the first part was over
        self._may_be_refused = {part.name: part for part in cast if part.second_try}
        self.played: dict[str, DemoJob] = {}  #: name -> part, of all that was submitted

    def due(self, now_s: float, views: Sequence[JobView]) -> list[Submission]:
        """What has come due, and second tries of what `views` show as refused with a counter-offer."""
        submissions: list[Submission] = []
        if not self.played:
            submissions.append(self._submission(now_s))
        elif self._tried_out_s is None and any(is_measured(view) or view.phase.is_end for view in views):
            self._tried_out_s = now_s
        if self._tried_out_s is not None:
            while self._waiting and self._tried_out_s + self._waiting[0].at_s <= now_s:
                submissions.append(self._submission(now_s))
        submissions += self._second_tries(views)
        self.played.update({part.name: part for part, _ in submissions})
        return submissions

    def _submission(self, now_s: float) -> Submission:
        """Submit the next part."""
        part = self._waiting.pop(0)
        after_s = part.deadline_after_s
        return part, None if after_s is None else now_s + after_s

    def _second_tries(self, views: Sequence[JobView]) -> list[Submission]:
        tries: list[Submission] = []
        for view in views:
            if view.name not in self._may_be_refused or not view.phase.is_end:
                continue
            part = self._may_be_refused.pop(view.name)
            if view.phase is Phase.REJECTED and view.counter_offer_s is not None and part.second_try:
                again = replace(part, name=part.second_try, second_try=None)
                tries.append((again, view.counter_offer_s + SECOND_TRY_SLACK_S))
        return tries

    def is_over(self, views: Sequence[JobView]) -> bool:
        """Everything was submitted and has ended."""
        ended = {view.name for view in views if view.phase.is_end}
        return not self._waiting and self.played.keys() <= ended
