"""What the head asks of a gang and is told: each command is answered once, and again if it is said again."""

from __future__ import annotations

import msgspec

from swell.executors.gang.effects import Effect, GangEventFields, Report
from swell.model.command import GangCommand
from swell.model.event import AnyEvent, GangEnded, GangSuspended, JobWarned, WorkersLost


class Replies(msgspec.Struct, kw_only=True):
    """What a gang was asked and has answered. A part of its record."""

    generation: int = 0  #: of the latest command
    asked: tuple[str, int] | None = None  #: the name of the latest command's kind, and its generation
    answer: AnyEvent | None = None  #: to the latest command
    end: GangEnded | GangSuspended | None = None
    warnings: dict[str, str] = {}  #: topic -> what was said last
    losses: list[WorkersLost] = []  #: told since the head was last known to have heard of one
    clock_s: float = 0.0  #: when something happened last
    num_takeovers: int = 0  #: controllers that have told of the gang, but the first


class CommandReplies:
    """A gang's side of the conversation. Reports go to `effects`, whose owner hands them on."""

    def __init__(self, job_id: str, effects: list[Effect], kept: Replies) -> None:
        self.kept = kept
        self._ahead_s = 0.0  #: of the clock of this controller
        self._job_id = job_id
        self._effects = effects

    @property
    def now_s(self) -> float:
        """Time of the gang's clock, which stands still while no controller is there."""
        return self.kept.clock_s

    def pass_time(self, now_s: float) -> None:
        """It is so late by the clock of this controller."""
        self.kept.clock_s = now_s + self._ahead_s

    @property
    def is_over(self) -> bool:
        """The end was told: all that follows is answered with it."""
        return self.kept.end is not None

    def hear(self, command: GangCommand, is_ending: bool) -> bool:
        """Whether the command is to be obeyed: it is news, and no later one came before it.

        `is_ending`: nothing but the end, in a moment, answers what was asked before.
        """
        kept, asked = self.kept, (type(command).__name__, command.generation)
        if kept.end is not None:
            self.report(msgspec.structs.replace(kept.end, generation=command.generation, at_s=self.now_s))
        elif kept.asked == asked:
            if kept.answer is not None and not is_ending:
                self.report(msgspec.structs.replace(kept.answer, at_s=self.now_s))
        elif command.generation >= kept.generation:
            kept.generation, kept.asked, kept.answer = command.generation, asked, None
            return True
        return False

    def facts(self) -> GangEventFields:
        return {"job_id": self._job_id, "generation": self.kept.generation, "at_s": self.now_s}

    def reply(self, event: AnyEvent) -> None:
        """Answer the latest command."""
        self.kept.answer = event
        if isinstance(event, WorkersLost):
            self.kept.losses.append(event)
        self.report(event)

    def close(self, event: GangEnded | GangSuspended) -> None:
        """Every process is gone."""
        self.reply(event)
        self.kept.end = event

    def warn(self, message: str, about: str = "") -> None:
        """See `JobWarned`: one with a topic is ended by an empty message. What stands is not said again."""
        if about:
            if self.kept.warnings.get(about, "") == message:
                return
            self.kept.warnings[about] = message
        self.report(JobWarned(job_id=self._job_id, at_s=self.now_s, message=message, about=about))

    def report(self, event: AnyEvent) -> None:
        self._effects.append(Report(event))

    def take_over(self, now_s: float) -> None:
        """Go on by the clock of a new controller.

        What still matters of the former one's reports is told again: they may be lost.
        """
        self._ahead_s = self.kept.clock_s - now_s
        self.kept.num_takeovers += 1
        for about, message in self.kept.warnings.items():
            if message:
                self.report(JobWarned(job_id=self._job_id, at_s=self.now_s, message=message, about=about))
        answer, losses = self.kept.answer, self.kept.losses
        for event in (*losses, *(() if answer is None or answer in losses else (answer,))):
            self.report(msgspec.structs.replace(event, at_s=self.now_s))
