"""How far the training of a gang is, and what the head and the job's owner are told of it."""

from __future__ import annotations

import msgspec

from swell.executors.gang.divergence import Divergence
from swell.executors.gang.drift import DRIFT, DriftCount
from swell.executors.gang.job_context import JobContext
from swell.executors.gang.member import Roster
from swell.executors.gang.membership import Membership
from swell.executors.gang.progress import Marks, Pacer, steps_report, values_report
from swell.executors.gang.reductions import Reductions
from swell.executors.gang.replies import CommandReplies
from swell.model.event import StepsReported
from swell.tally import tally_of
from swell.wire import messages
from swell.wire.metric_names import LOSS, MetricNames
from swell.wire.numbers import spelled


class TrainingProgress:
    def __init__(
        self,
        stage: JobContext,
        saved_steps: int,
        roster: Roster,
        membership: Membership,
        dialogue: CommandReplies,
    ) -> None:
        self.steps = saved_steps  #: finished, as far as is known
        self.saved_steps = saved_steps  #: of the newest checkpoint
        self._job_id = stage.job_id
        self._roster = roster
        self._membership = membership
        self._dialogue = dialogue
        self._pacer = Pacer()
        self._marks = Marks()
        self._names = MetricNames()
        self._reductions = Reductions()
        self._divergence = Divergence(stage.spec.stop_on_nan)
        self._drift = DriftCount()
        self._final: messages.Finished | None = None

    # ------------------------------------------------------------ what workers say
    def note(self, said: messages.Progress) -> None:
        report = steps_report(self._job_id, self._generation, said, self._dialogue.now_s)
        self._note(report, said.odd_since)

    def note_values(self, said: messages.Reported, worker: int, is_again: bool = False) -> None:
        """The script has measured something, and made no step since it last said how far it is.

        Args:
            is_again: a former controller may have told of it.
        """
        self._reductions.note(worker, self._names.admitted(said.shares), said.steps)
        if said.refusal:
            self._dialogue.warn(said.refusal)
        if said.values or said.curves:
            report = values_report(self._job_id, self._generation, self.steps, said, self._dialogue.now_s)
            self._note(msgspec.structs.replace(report, is_again=is_again and bool(report.curves)))
        self._reduce()

    def begin_group(self, round: int) -> None:
        """A worker has joined the group of this round, which trains from where `steps` is."""
        self._reductions.begin(round, self.steps)

    def _reduce(self, is_last: bool = False) -> None:
        """Tell of values that have become one."""
        workers, now_s = self._roster.group, self._dialogue.now_s
        for name, (reduction, values) in self._reductions.take(workers, self.steps, now_s, is_last).items():
            tally = tally_of(values, len(workers), reduction)
            # The curve of the loss is the gang's own.
            curves = {} if tally is None or name == LOSS else {name: tally}
            told = messages.Reported(values={name: spelled(values[-1][1])}, curves=curves)
            self._note(values_report(self._job_id, self._generation, self.steps, told, now_s))

    def _note(self, report: StepsReported, odd_since: int | None = None) -> None:
        report = msgspec.structs.replace(
            report,
            metrics=self._names.admitted(report.metrics),
            curves=self._names.admitted(report.curves),
            mark=self._marks.next(self._dialogue.now_s),
        )
        if told := self._names.take_refusal():
            self._dialogue.warn(told)
        for message in self._divergence.note(report.steps, report.loss, odd_since, report.metrics):
            self._dialogue.warn(message)
        for due in self._pacer.add(report, self._dialogue.now_s):
            self._dialogue.report(due)

    @property
    def _generation(self) -> int:
        return self._membership.generation or self._dialogue.generation

    def note_drift(self, said: messages.Drifted) -> None:
        if told := self._drift.note(said):
            self._dialogue.warn(told, about=DRIFT)

    def note_finished(self, said: messages.Finished, is_leader: bool) -> None:
        """The leader's word counts, or else the first."""
        if self._final is None or is_leader:
            self._final = said
            self.steps = said.steps

    # ------------------------------------------------------------ what is told
    def report_due(self) -> None:
        self._reduce()
        for report in self._pacer.due(self._dialogue.now_s):
            self._dialogue.report(report)

    def flush(self) -> None:
        """Report what is held back: an event follows that must not overtake it."""
        for report in self._pacer.flush(self._dialogue.now_s):
            self._dialogue.report(report)

    def report_last(self, round: int, num_workers: int, is_success: bool) -> None:
        """How often replicas differed, and how far a job got that succeeded.

        Args:
            round: the latest group.
            num_workers: its size.
        """
        if told := self._drift.rest():
            self._dialogue.warn(told, about=DRIFT)
        self._reduce(is_last=True)
        if self._final is not None and is_success:
            self.steps = self._final.steps
            last = messages.Progress(
                generation=round,
                steps=self._final.steps,
                num_workers=num_workers,
                loss=self._final.loss,
                odd_since=self._final.odd_since,
                metrics=self._final.metrics,
            )
            self.note(last)
        self.flush()
