"""A guarded head, whose policy and belief raise errors, runs in a world that a test drives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

from tests.core.driven_world import DrivenWorld
from tests.core.fakes import InTurns, PowerBelief, PowerSpeed, core_of
from tests.core.head import Head
from tests.store.fresh_journal import fresh_journal

from swell.arrays import FloatArray, IntArray
from swell.core.core import Core
from swell.core.platform_core import PlatformCore
from swell.live.board import TurnResult
from swell.live.recovery import BatchGuard, replay
from swell.model.command import AnyCommand
from swell.model.event import AnyEvent
from swell.model.job import JobSpec, Profile
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.store.journal import packed
from swell.throughput.learnt import UNPROFILED, Learnt


class Raised(Exception):
    """A policy or a belief raises it, as a defect would."""


@dataclass
class Moments:
    """When something raises: drawn by what is asked, so the same question is answered alike each time.

    Or by how often something was asked, where moments are `counted`.
    """

    seed: int = 0
    share: float = 0.0  #: of all questions
    counted: Iterator[int] | None = None
    is_over: bool = False
    raised: set[str] = field(default_factory=set)

    def pass_by(self, what: str, *about: object) -> None:
        about = about if self.counted is None else (next(self.counted),)
        drawn = crc32(repr((self.seed, what, *about)).encode()) / 2**32
        if not self.is_over and drawn < self.share:
            self.raised.add(what)
            raise Raised(f"{what} of {about}")


NONE_RAISE = Moments()


class RaisingSpeed(PowerSpeed, kw_only=True):
    """Raises when it is asked."""

    job_id: str
    moments: Any

    def rates_per_s(self, workers: IntArray, hosts: IntArray | None = None) -> FloatArray:
        self.moments.pass_by("rates_per_s", self.job_id, self.factor)
        return super().rates_per_s(workers, hosts)


class RaisingBelief(PowerBelief):
    """Raises amid what it does: half of it is done by then."""

    moments = NONE_RAISE

    def learn_profile(self, job_id: str, spec: JobSpec, profile: Profile) -> None:
        super().learn_profile(job_id, spec, profile)
        self.margins = self.margins + 1.0
        self.moments.pass_by("learn_profile", job_id)
        self.margins = self.margins - 1.0

    def learn_rate(self, job_id: str, *measured: Any, **more: Any) -> None:
        super().learn_rate(job_id, *measured, **more)
        self.moments.pass_by("learn_rate", job_id, *measured[:3])

    def of(self, job_id: str) -> Learnt:
        factor = self._factors.get(job_id, 1.0)
        return RaisingSpeed(curve=UNPROFILED.curve, factor=factor, job_id=job_id, moments=self.moments)


class RaisingPolicy(InTurns):
    moments: Moments = NONE_RAISE

    def decide(self, snapshot: Snapshot) -> Allocation:
        self.moments.pass_by("decide", snapshot.now_s, snapshot.job_ids)
        return super().decide(snapshot)


def raising_core(moments: Moments) -> Core:
    def belief() -> RaisingBelief:
        made = RaisingBelief()
        made.moments = moments
        return made

    return core_of(RaisingPolicy(moments=moments), belief=belief)


class GuardedHead(Head):
    """Its twin never raises, and hears what the journal holds in the end."""

    def __init__(self, make: Callable[[], Core], world: DrivenWorld, is_repeatable: bool = True) -> None:
        super().__init__(make, world)
        self._said: list[AnyCommand] = []
        self.is_repeatable = is_repeatable  #: errors are raised again by the same batches, and by no others
        self._twin = PlatformCore(lambda: raising_core(NONE_RAISE))
        self.journal = fresh_journal()
        self._fold: tuple[int, bytes] | None = None  #: one that is begun
        self.guard = BatchGuard(self.core, self.journal, self.journal.amend)

    def fold(self) -> None:
        """Begin a fold, or end it: there may be turns, errors and a death between."""
        if self._fold is None:
            self._fold = self.journal.last_seq, packed(self.core.save())
        else:
            self.journal.fold_to(*self._fold)
            self._fold = None

    def die_before_it_is_amended(self) -> None:
        """A batch is written, and nothing more: the next life mends it."""
        if batch := self.port.next_events():
            self.batches.append(batch)
            self.journal.append(batch)
            history = self.journal.history()
            self._begin(history.state)
            self._replay(replay(self.core, history.entries, self.guard.mend))
            self._check_turn(self._twin.handle(self._latest_batch))
            self._say_again()

    def _handle(self, batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        self.journal.append(batch)
        try:
            commands = self.core.handle(batch)
        except Exception as error:  # noqa: BLE001 - whatever a drawn error is
            commands = self.guard.mend(self.journal.last_seq, batch, error)
        self._board.post(TurnResult.of(self.core))
        if self.is_repeatable:
            assert self._twin.handle(self._latest_batch) == commands
            assert self._twin.save() == self.core.save(), "nothing of what was half done may stay"
        return commands

    @property
    def _latest_batch(self) -> Sequence[AnyEvent]:
        """The latest batch as it is in the journal in the end."""
        *_, entry = self.journal.history().entries
        return entry.batch

    def _check_turn(self, commands: list[AnyCommand]) -> None:
        """Where errors come and go, some commands are said again."""
        news = [command for command in commands if self.is_repeatable or command not in self._said]
        super()._check_turn(news)
        self._said += commands

    def _recover(self) -> None:
        history = self.journal.history()
        self._begin(history.state)
        self._replay(replay(self.core, history.entries))

    def _replay(self, turns: Iterable[object]) -> None:
        for _ in turns:
            self._board.post(TurnResult.of(self.core))

    def _begin(self, saved: bytes | None) -> None:
        self._fold = None
        super()._begin(saved)
        self.guard = BatchGuard(self.core, self.journal, self.journal.amend)
