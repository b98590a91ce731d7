"""Workers that are no processes: they say what real ones say, and their steps are made by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swell.wire.environ import EXIT_STOPPED
from swell.wire.messages import (
    CALIBRATED_BYTES,
    Abort,
    Alive,
    Bound,
    Broken,
    Calibrated,
    CheckpointSaved,
    Finished,
    FromAgent,
    FromWorker,
    Joined,
    Left,
    Profiled,
    Progress,
    Ready,
    Regroup,
    Suspend,
    Welcome,
)

GLOBAL_BATCH = 64
#: Seconds for a sample on one device, and for an all-reduce: eight workers make two steps a second.
SAMPLE_S, ALLREDUCE_S = 0.05, 0.1
GRAD_BYTES = STATE_BYTES = 100_000_000
SAMPLES_PER_EPOCH = 1_000_000


def step_s(num_workers: int) -> float:
    return GLOBAL_BATCH / num_workers * SAMPLE_S + (ALLREDUCE_S if num_workers > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Exit:
    """The last thing that a worker does."""

    status: int


Act = FromWorker | Exit


@dataclass(slots=True)
class EmulatedWorker:
    """Of one run on one host. `now_s` is of one clock of all hosts."""

    job_id: str
    number: int
    report_every_s: float
    saved: dict[str, int]  #: steps in the newest checkpoint, by job
    welcome: Welcome | None = None
    group: Regroup | None = None
    steps: int = 0  #: at `since_s`
    since_s: float = 0.0
    report_due_s: float = 0.0
    alive_due_s: float = 0.0
    told_first: bool = False

    # ------------------------------------------------------------ what it is told
    def hear(self, message: FromAgent, now_s: float) -> Iterator[Act]:
        match message:
            case Welcome():
                self.welcome, self.alive_due_s = message, now_s + message.heartbeat_s
                self.steps = self.saved.get(self.job_id, 0)
                yield from self._begin(message)
            case Regroup(rank=None):
                self._settle(now_s)
                yield Left(generation=message.generation)
                yield Exit(EXIT_STOPPED)
            case Regroup():
                yield from self._regroup(message, now_s)
            case Suspend(generation=generation):
                yield from self._suspend(generation, now_s)
            case Abort(generation=generation) if self._is_in(generation):
                self._settle(now_s)
                self.group = None
                yield Broken(generation=generation, steps=self.steps, message="a peer is gone")
            case _:
                pass

    def _begin(self, welcome: Welcome) -> Iterator[Act]:
        yield Ready()
        if welcome.mode == "profile":
            yield Profiled(
                compute_s={batch: batch * SAMPLE_S for batch in welcome.local_batches},
                grad_bytes=GRAD_BYTES,
                state_bytes=STATE_BYTES,
                samples_per_epoch=SAMPLES_PER_EPOCH,
            )
            yield Exit(0)

    def _regroup(self, order: Regroup, now_s: float) -> Iterator[Act]:
        self._settle(now_s)
        self.group, self.since_s, self.told_first = order, now_s, False
        self.report_due_s = now_s
        if order.rank == 0:
            yield Bound(generation=order.generation, address="127.0.0.1:1")
        yield Joined(generation=order.generation, steps=self.steps)
        if self.welcome is not None and self.welcome.mode == "calibrate":
            if order.rank == 0:
                yield Calibrated(allreduce_s=dict.fromkeys(CALIBRATED_BYTES, ALLREDUCE_S))
            yield Exit(0)

    def _suspend(self, generation: int, now_s: float) -> Iterator[Act]:
        if not self._is_in(generation):
            return
        self._settle(now_s)
        if self.group is not None and self.group.rank == 0:
            self.saved[self.job_id] = self.steps
            yield CheckpointSaved(steps=self.steps, path="/nowhere")
        yield Left(generation=generation)
        yield Exit(EXIT_STOPPED)

    def _is_in(self, generation: int) -> bool:
        return self.group is not None and self.group.generation == generation

    def _settle(self, now_s: float) -> None:
        self.steps, self.since_s = self._steps_at(now_s), now_s

    # ------------------------------------------------------------ time
    def _steps_at(self, now_s: float) -> int:
        if self.group is None:
            return self.steps
        return self.steps + int((now_s - self.since_s) / step_s(self.group.num_workers))

    def pass_time(self, now_s: float) -> Iterator[Act]:
        """Signs of life, and progress from rank 0; at the end the exit."""
        if self.welcome is None:
            return
        if now_s >= self.alive_due_s:
            self.alive_due_s = max(now_s, self.alive_due_s + self.welcome.heartbeat_s)
            generation = 0 if self.group is None else self.group.generation
            steps = self._steps_at(now_s)
            yield Alive(generation=generation, steps=steps, for_s=0.1)
        if self.group is not None:
            yield from self._train(self.group, self.welcome, now_s)

    def _train(self, group: Regroup, welcome: Welcome, now_s: float) -> Iterator[Act]:
        steps = self._steps_at(now_s)
        if welcome.total_steps is not None and steps >= welcome.total_steps:
            yield Finished(steps=welcome.total_steps)
            yield Exit(0)
        elif group.rank == 0 and now_s >= self.report_due_s and steps > self.steps:
            is_first, self.told_first = not self.told_first, True
            # Each job at another time: what begins together goes on at its own pace.
            lag = self.report_every_s * (hash(self.job_id) % 997 / 997 if is_first else 1.0)
            self.report_due_s = now_s + lag
            yield Progress(
                generation=group.generation,
                steps=steps,
                num_workers=group.num_workers,
                step_s=None if is_first else step_s(group.num_workers),
                loss=1.0 / (1.0 + steps),
                pause_s=0.01 if is_first else None,
            )
