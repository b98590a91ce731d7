"""Many reports of progress are folded into few, and warnings of odd values and replicas are given once."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from swell.executors.gang.replies import CommandReplies
from swell.model.event import StepsReported
from swell.model.report_folding import can_fold, fold
from swell.wire.messages import Drifted
from swell.wire.metric_names import LOSS, MetricNames

#: A gang reports no more often than this.
INTERVAL_S = 0.5
#: Of a mark: microseconds of 35 years.
CLOCK_BITS = 50


REMEDY = (
    "lower the learning rate, clip gradients (clip_grad_norm_) or look for such values in the "
    "data; with --stop-on-nan a job ends there, with its last good state saved"
)


#: No name of a metric: it has a blank.
THE_LOSS = "the loss"


class Divergence:
    """Warnings of values that one gang has reported as not finite: one for each name.

    The job's next gang, which goes on from a checkpoint, warns of them again.
    """

    def __init__(self, stops_on_nan: bool) -> None:
        self._told = {THE_LOSS} if stops_on_nan else set()  # how the job failed tells it then

    def note(
        self, steps: int, loss: float | None, odd_since: int | None, metrics: Mapping[str, float]
    ) -> list[str]:
        """What its owner is to be told of this report, which was made after `steps` steps."""
        told = []
        if loss is not None and not math.isfinite(loss) and self._is_new(THE_LOSS):
            told.append(
                f"the loss is {loss} since step {steps if odd_since is None else odd_since}: {REMEDY}"
            )
        for name, value in metrics.items():
            if not math.isfinite(value) and self._is_new(name):
                told.append(f"the script reports {name} as {value} after step {steps}")
        return told

    def _is_new(self, name: str) -> bool:
        is_new = name not in self._told
        self._told.add(name)
        return is_new


#: Topic of the warning.
DRIFT = "drift"


class DriftCount:
    """Count of how often the replicas of one gang differed.

    It is reported the first time, each time that it has doubled, and at the end.
    """

    def __init__(self) -> None:
        self._num = 0
        self._num_told = 0
        self._num_healed = 0
        self._first_step = 0
        self._latest: Drifted | None = None

    def note(self, said: Drifted) -> str:
        """What to tell now; empty if nothing."""
        if self._latest is None:
            self._first_step = said.first_step
        self._latest = said
        self._num += said.num
        self._num_healed += said.num if said.is_healed else 0
        return self.rest() if self._num >= 2 * self._num_told else ""

    def rest(self) -> str:
        """What has not been told; empty if nothing."""
        if self._latest is None or self._num == self._num_told:
            return ""
        self._num_told = self._num
        return f"{self._times(self._latest)}: {self._latest.message}"

    def _times(self, latest: Drifted) -> str:
        healed = "healed each time, all took rank 0's state" if self._num_healed else "not healed"
        if 0 < self._num_healed < self._num:
            healed = f"healed {self._num_healed} of these times"
        if self._num == 1:
            healed = "healed, all took rank 0's state" if self._num_healed else "not healed"
            return f"the workers' replicas differed in step {latest.last_step} ({healed})"
        steps = f"first in step {self._first_step} and last in step {latest.last_step}"
        return f"the workers' replicas differed {self._num} times, {steps} ({healed})"


class Reporting:
    """What the head and the job's owner are told of the training of one gang.

    A report of progress is told at most every `INTERVAL_S`: what comes between is folded into one, and none
    of it is lost.
    """

    def __init__(self, replies: CommandReplies, stops_on_nan: bool = False) -> None:
        self.names = MetricNames()
        self._replies = replies
        self._divergence = Divergence(stops_on_nan)
        self._mark = 0
        self._held: StepsReported | None = None
        self._sent_s = float("-inf")

    def note(self, report: StepsReported, odd_since: int | None = None, names_loss: bool = False) -> None:
        """Tell of this now or soon.

        Args:
            odd_since: the step since which the loss is no number.
            names_loss: how the loss comes about is the script's own affair: it is a value like any other.
        """
        report = msgspec.structs.replace(
            report,
            metrics=self.names.admitted(report.metrics),
            curves=self.names.admitted(report.curves),
            mark=self._next_mark(),
        )
        loss, metrics = report.loss, report.metrics
        if names_loss and report.loss is not None:
            loss, metrics = None, {LOSS: report.loss, **metrics}
        warnings = self._divergence.note(report.steps, loss, odd_since, metrics)
        for told in filter(None, (self.names.take_refusal(), *warnings)):
            self._replies.warn(told)
        if self._held is not None and can_fold(self._held, report):
            report = fold(self._held, report)
        elif self._held is not None:
            self._replies.report(self._held)
        self._held = report
        self.report_due()

    def report_due(self) -> None:
        """Report what has been held back for long enough."""
        if self._replies.now_s - self._sent_s >= INTERVAL_S:
            self.flush()

    def flush(self) -> None:
        """Report what is held back, due or not: an event follows that must not overtake it."""
        if self._held is not None:
            self._sent_s = self._replies.now_s
            self._replies.report(self._held)
            self._held = None

    def _next_mark(self) -> int:
        """Each mark is higher than the one before, also after a change of controller.

        The clock of the next controller may have begun again, with its machine.
        """
        self._mark = max(self._mark + 1, int(self._replies.now_s * 1e6))
        return (self._replies.kept.num_takeovers << CLOCK_BITS) + self._mark
