"""Many reports of progress are folded into few, and warnings of odd values and replicas are given once."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from swell.executors.gang.replies import CommandReplies
from swell.model.event import StepsReported
from swell.model.report_folding import can_fold, fold
from swell.wire.metric_names import LOSS, MetricNames

#: A gang reports no more often than this.
INTERVAL_S = 0.5
#: Of a mark: microseconds of 35 years.
CLOCK_BITS = 50


REMEDY = (
    "lower the learning rate, clip gradients (clip_grad_norm_) or look for such values in the "
    "data; with --stop-on-nan a job ends there, with its last good state saved"
)


#: In place of a name: a blank is in no name of a metric.
THE_LOSS = "the loss"


class Reporting:
    """What the head and the job's owner are told of the training of one gang.

    A report of progress is told at most every `INTERVAL_S`: what comes between is folded into one, and none
    of it is lost.
    """

    def __init__(self, replies: CommandReplies, stops_on_nan: bool = False) -> None:
        self.names = MetricNames()
        self._replies = replies
        #: Names of values that were told to be not finite. A loss that ends the job is told by its end.
        self._odd = {THE_LOSS} if stops_on_nan else set()
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
        if told := self.names.take_refusal():
            self._replies.warn(told)
        values = report.metrics
        if report.loss is not None:
            values = {LOSS if names_loss else THE_LOSS: report.loss, **values}
        self._warn_of_odd(values, report.steps, odd_since)
        if self._held is not None and can_fold(self._held, report):
            report = fold(self._held, report)
        elif self._held is not None:
            self._replies.report(self._held)
        self._held = report
        self.report_due()

    def _warn_of_odd(self, values: Mapping[str, float], steps: int, odd_since: int | None) -> None:
        """Once for each name. The job's next gang, which goes on from a checkpoint, warns of them again."""
        for name, value in values.items():
            if math.isfinite(value) or name in self._odd:
                continue
            self._odd.add(name)
            told = f"the script reports {name} as {value} after step {steps}"
            if name == THE_LOSS:
                since = steps if odd_since is None else odd_since
                told = f"the loss is {value} since step {since}: {REMEDY}"
            self._replies.warn(told)

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
