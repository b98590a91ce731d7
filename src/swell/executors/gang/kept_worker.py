"""What a host has kept of a worker: the latest message of each kind, in order, and how it ended."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from swell.executors.gang.member import Member, Slot, State
from swell.wire.messages import (
    Alive,
    Broken,
    FromAgent,
    FromWorker,
    Hello,
    Joined,
    JoinFailed,
    Message,
    Progress,
    Ready,
    Regroup,
)

Said = TypeVar("Said", bound=Message)


class KeptExit(msgspec.Struct, frozen=True, kw_only=True):
    """Exit of a worker, with fields as in `WorkerExit`."""

    status: int
    log_tail: str


class KeptWorker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that lives, or of whose end the former controller may not have heard."""

    number: int
    pid: int | None = None  #: None: its process is still being started
    is_stopped: bool = False  #: by a signal
    talk: tuple[FromAgent | FromWorker, ...] = ()  #: what it was told and has said, the latest of each kind
    exit: KeptExit | None = None

    def latest(self, kind: type[Said]) -> Said | None:
        """The last message of this kind."""
        return next((message for message in self.talk if isinstance(message, kind)), None)

    def was_told(self, order: Regroup) -> bool:
        """This order to regroup, or a later one."""
        told = self.latest(Regroup)
        return told is not None and told.generation >= order.generation

    def comes_after(self, message: Message, kind: type[Message]) -> bool:
        """Whether a message of this talk comes after the last one of a kind."""
        mark = self.latest(kind)
        return mark is not None and self.talk.index(message) > self.talk.index(mark)

    def is_unanswered(self, answer: type[Message], message: Message) -> bool:
        """Whether it has not been told this kind of answer since it said a message of this talk."""
        return self.latest(answer) is None or self.comes_after(message, answer)


def member_of(kept: KeptWorker, slot: Slot, order: Regroup | None, now_s: float) -> Member:
    """The worker's state after all that it has said, except that it leaves: that is heard again.

    Args:
        order: what it was to be told of the latest group, whether it was or not; None: nothing.
    """
    joined, broken, failed = kept.latest(Joined), kept.latest(Broken), kept.latest(JoinFailed)
    member = Member(kept.number, slot, since_s=now_s, pid=kept.pid)
    member.heard_s = None if kept.latest(Hello) is None else now_s
    member.heartbeat = kept.latest(Alive)
    member.has_state = joined is not None
    if joined is not None and (broken is None or broken.generation < joined.generation):
        member.whole_round = joined.generation
    for message in kept.talk:
        if isinstance(message, Joined | JoinFailed | Broken | Progress):
            member.steps = message.steps
    ended = {failure.generation for failure in (broken, failed) if failure is not None}
    member.state = _state_of(member, kept, order, ended)
    return member


def _state_of(member: Member, kept: KeptWorker, order: Regroup | None, ended: set[int]) -> State:
    if order is None:
        return State.STARTING if kept.latest(Ready) is None else State.READY
    if order.rank is None:
        return State.LEAVING
    if order.generation in ended and member.whole_round is None:
        return State.BROKEN
    return State.TRAINING if member.whole_round == order.generation else State.FORMING
