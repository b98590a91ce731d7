"""What the head asks of a gang and is told: each command is answered once, and again if it is said again."""

from __future__ import annotations

import msgspec

from swell.executors.gang.effects import Effect, GangEventFields, Report
from swell.executors.gang.records import CommandRepliesRecord
from swell.model.command import GangCommand, LaunchGang, Reconfigure, StopGang, SuspendGang
from swell.model.event import AnyEvent, GangEnded, GangSuspended, JobWarned, WorkersLost

_KINDS: dict[str, type[GangCommand]] = {
    kind.__name__: kind for kind in (LaunchGang, Reconfigure, SuspendGang, StopGang)
}


class CommandReplies:
    """A gang's side of it. Reports go to `effects`, whose owner hands them on."""

    def __init__(self, job_id: str, effects: list[Effect]) -> None:
        self.generation = 0  #: of the latest command
        self.now_s = 0.0
        self.end: GangEnded | GangSuspended | None = None
        self._job_id = job_id
        self._effects = effects
        self._asked: tuple[type[GangCommand], int] | None = None
        self._answer: AnyEvent | None = None
        self._warnings: dict[str, str] = {}  #: topic -> what was said last
        self._losses: list[WorkersLost] = []  #: told since the head was last known to have heard of one

    @property
    def is_over(self) -> bool:
        """The end was told: all that follows is answered with it."""
        return self.end is not None

    @property
    def is_answered(self) -> bool:
        return self._answer is not None

    def is_asked(self, kind: type[GangCommand]) -> bool:
        """Whether the latest command is of this kind."""
        return self._asked is not None and self._asked[0] is kind

    def hear(self, command: GangCommand, is_ending: bool) -> bool:
        """Whether the command is to be obeyed: it is news, and no later one came before it.

        `is_ending`: nothing but the end, in a moment, answers what was asked before.
        """
        if self.end is not None:
            self.report(msgspec.structs.replace(self.end, generation=command.generation, at_s=self.now_s))
        elif self._asked == (type(command), command.generation):
            if self._answer is not None and not is_ending:
                self.report(msgspec.structs.replace(self._answer, at_s=self.now_s))
        elif command.generation >= self.generation:
            self.generation = command.generation
            self._asked, self._answer = (type(command), command.generation), None
            return True
        return False

    def forget(self) -> None:
        """The same command again is no repetition, but another try."""
        self._asked = None

    # ------------------------------------------------------------ telling
    def facts(self) -> GangEventFields:
        return {"job_id": self._job_id, "generation": self.generation, "at_s": self.now_s}

    def reply(self, event: AnyEvent) -> None:
        self._answer = event
        if isinstance(event, WorkersLost):
            self._losses.append(event)
        self.report(event)

    def note_heard(self) -> None:
        """The head knows of every loss."""
        self._losses.clear()

    def close(self, event: GangEnded | GangSuspended) -> None:
        """Every process is gone."""
        self.reply(event)
        self.end = event

    def is_warned(self, about: str, message: str) -> bool:
        """Whether this stands."""
        return self._warnings.get(about, "") == message

    def warn(self, message: str, about: str = "") -> None:
        """See `JobWarned`: one with a topic is ended by an empty message. What stands is not said again."""
        if about:
            if self.is_warned(about, message):
                return
            self._warnings[about] = message
        self.report(JobWarned(job_id=self._job_id, at_s=self.now_s, message=message, about=about))

    def report(self, event: AnyEvent) -> None:
        self._effects.append(Report(event))

    # ------------------------------------------------------------ from one controller to the next
    def record(self) -> CommandRepliesRecord:
        """Return the state for `restore` of the next controller's dialogue."""
        return CommandRepliesRecord(
            generation=self.generation,
            asked=None if self._asked is None else (self._asked[0].__name__, self._asked[1]),
            answer=self._answer,
            end=self.end,
            warnings=dict(self._warnings),
            losses=tuple(self._losses),
        )

    def restore(self, record: CommandRepliesRecord) -> None:
        """Restore a former controller's state. Reports that still matter are sent again: they may be lost."""
        self.generation, self._warnings = record.generation, dict(record.warnings)
        self._asked = None if record.asked is None else (_KINDS[record.asked[0]], record.asked[1])
        self._answer, self.end, self._losses = record.answer, record.end, list(record.losses)
        for about, message in self._warnings.items():
            if message:
                self.report(JobWarned(job_id=self._job_id, at_s=self.now_s, message=message, about=about))
        answers = () if self._answer is None or self._answer in self._losses else (self._answer,)
        for event in (*self._losses, *answers):
            self.report(msgspec.structs.replace(event, at_s=self.now_s))
