"""Asks joined hosts what they have, and tries the way to each. One that does not answer in time is silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from swell.executors.local.machine_facts import MachineFacts
from swell.executors.local.protocol import ExaminationEnded, ExaminationMessage, HostExamined
from swell.executors.remote.conversation import Conversation
from swell.executors.remote.join_warnings import Probe
from swell.executors.remote.opening import Join
from swell.executors.remote.transient_messages import FactsAsked, FactsTold
from swell.model.lengths import span

#: A host with GPUs imports torch to look for NCCL, which takes seconds, on a busy machine more.
FACTS_WITHIN_S = 30.0


@dataclass(slots=True)
class _Question:
    """Question that was sent to one host, and what is known of the answer."""

    join: Join
    conversation: Conversation
    until_s: float
    round: _Round
    facts: MachineFacts | None = None
    ahead_s: float = 0.0
    way_problem: str | None = None
    is_way_known: bool = False


@dataclass(slots=True)
class _Round:
    """Questions of one who asks."""

    told: Callable[[ExaminationMessage], None]
    open: set[int] = field(default_factory=set)  #: their numbers


class Examinations:
    """Every method returns at once, and must be called from one thread."""

    def __init__(self, probe: Probe, now_s: Callable[[], float] = time.monotonic) -> None:
        """
        Args:
            probe: tries the way to a host.
            now_s: a clock that never goes back.
        """
        self._probe, self._now_s = probe, now_s
        self._questions: dict[int, _Question] = {}
        self._num_asked = 0

    def begin(
        self, hosts: Iterable[tuple[Join, Conversation]], told: Callable[[ExaminationMessage], None]
    ) -> None:
        """`told` hears of each host as soon as it has answered, or is silent, and at last of the end."""
        asked = _Round(told)
        for join, conversation in hosts:
            self._num_asked += 1
            question = _Question(join, conversation, self._now_s() + FACTS_WITHIN_S, asked)
            self._questions[self._num_asked] = question
            asked.open.add(self._num_asked)
        if not asked.open:
            told(ExaminationEnded())
        for number in sorted(asked.open):
            self._ask(number)

    def _ask(self, number: int) -> None:
        question = self._questions[number]
        join = question.join
        if not question.conversation.is_open:
            self._tell(number, "it has no line to the head now")
            return
        question.conversation.say_aside(FactsAsked(number=number))
        question.is_way_known = not join.probe_port
        if join.probe_port:
            self._probe(join.advertise, join.probe_port, partial(self._hear_way, number))

    def hear(self, host: str, message: FactsTold) -> None:
        """What a host has; an answer that comes too late, or to what another host was asked, is none."""
        question = self._questions.get(message.number)
        if question is not None and question.join.host == host:
            question.facts = message.facts
            question.ahead_s = message.facts.clock_s - time.time()
            self._tell_whole(message.number)

    def _hear_way(self, number: int, why_not: str) -> None:
        if (question := self._questions.get(number)) is not None:
            question.way_problem, question.is_way_known = why_not, True
            self._tell_whole(number)

    def pass_time(self) -> None:
        """Report hosts that lost their line or did not answer in time. To be called from time to time."""
        for number, question in list(self._questions.items()):
            if not question.conversation.has_line:
                self._tell(number, "its line to the head broke when it was asked")
            elif self._now_s() >= question.until_s:
                self._tell(number, f"it has not answered within {span(FACTS_WITHIN_S)}")

    def _tell_whole(self, number: int) -> None:
        question = self._questions[number]
        if question.facts is not None and question.is_way_known:
            self._tell(number, "")

    def _tell(self, number: int, why_silent: str) -> None:
        """`why_silent`: counts where the host has told nothing."""
        question = self._questions.pop(number)
        asked, join = question.round, question.join
        asked.told(
            HostExamined(
                name=join.host,
                facts=question.facts,
                why_silent=why_silent if question.facts is None else "",
                version=join.version,
                torch=join.torch,
                advertise=join.advertise,
                ahead_s=question.ahead_s,
                way_problem=question.way_problem,
            )
        )
        asked.open.remove(number)
        if not asked.open:
            asked.told(ExaminationEnded())
