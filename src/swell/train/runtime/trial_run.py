"""A trial run: seconds a step by local batch, through the user's own loop, and what all-reduces take."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NoReturn, TypeVar

import msgspec
import torch

from swell.script_facts import ScriptFinding, ScriptNumbers
from swell.train.collective.gradients import StepTotals
from swell.train.collective.group import Group, GroupBroken, check_no_group
from swell.train.collective.next_group import FormFailed
from swell.train.collective.positions import ALONE, Positions
from swell.train.data.place import UNBOUNDED
from swell.train.data.sample_schedule import SampleSchedule, Share, tighter
from swell.train.link.agent_link import Link, Superseded, exit_now, open_link
from swell.train.runtime.host import Host, ShownCounts, Task
from swell.train.runtime.meter import Meter
from swell.train.runtime.size_comparison import MOST_SAMPLES, SizeComparison
from swell.train.runtime.step_comparison import ResumeCheck, ShareOf
from swell.train.state.optimizer_set import OptimizerSet
from swell.train.state.staging import COPIED_BYTES_PER_S
from swell.wire import environ, messages
from swell.wire.private_files import are_private

NUM_WARM_UPS = 2
#: Time spent on each batch size, unless a single step takes longer.
BUDGET_S = 0.4
MAX_TIMED = 20
#: Fewer steps will do where the last so many differ by no more than this share.
NUM_ALIKE, ALIKE_SHARE = 3, 0.02
#: After a step as long as this, larger batches are not tried: their times follow from those of smaller ones,
LONG_STEP_S = 2.0
#: if there are as many as this.
LEAST_SIZES = 3
#: Steps of a trial run, which ends by itself.
NO_END = 2**31
#: Samples of a step at most, where nothing is to be measured.
MOST_TRIED = 16
#: All-reduces of a size that are timed.
NUM_TIMED = 5
T = TypeVar("T")


def goes_on(sizes: Sequence[int], compute_s: Mapping[int, float]) -> bool:
    """Whether the next of these local batches is to be tried, by the times of those before it."""
    done = len(compute_s)
    if done == len(sizes):
        return False
    is_larger = done > 0 and sizes[done] > sizes[done - 1]
    return done < LEAST_SIZES or not is_larger or compute_s[sizes[done - 1]] < LONG_STEP_S


class Profiling(Host):
    """One process that measures `Welcome.local_batches` one after the other, then the end of an epoch.

    If it is asked to, it compares before that one worker with two, see `SizeComparison`, and a run with one
    that is saved and goes on, see `ResumeCheck`.

    The epoch ends as soon as steps are measured, however few they were.
    """

    shown: ShownCounts

    def __init__(self, link: Link, max_local_batch: int | None, positions: Positions) -> None:
        super().__init__(link.welcome, max_local_batch, link, positions)
        self._link = link
        self._tried: SizeComparison | ResumeCheck | None = None  #: the check that is under way
        self._plan = self._trial()
        self._share_of: ShareOf | None = None  #: of the step under way
        self._num_begun = 0  #: batches that the script has asked for
        self._sizes = self.welcome.local_batches
        self._meter = Meter(self.welcome.pace_per_s)
        self._size = 0  # that is measured
        self._timed: list[float] = []  # seconds of each step of this size, warm-ups first
        self._compute_s: dict[int, float] = {}
        self._left_s: float | None = None  # when the epoch ended
        self._between_s: float | None = None  # what the script then took for what follows
        self._findings: list[ScriptFinding] = []
        self._own: ScriptNumbers | None = None

    @property
    def _resumes(self) -> bool:
        return self.welcome.resumes and self.positions.num == 1

    @property
    def _least_size(self) -> int:
        """Samples of the smallest step that it makes."""
        return min(self._sizes, default=min(self.course.global_batch, MOST_TRIED))

    def adapt(self, course: SampleSchedule) -> SampleSchedule:
        """`share` decides how many samples a step has: an epoch is as long as it can be."""
        self.course = course  #: of the job
        if counts := self.welcome.worker_counts:
            parts = {-(-course.global_batch // num) for num in counts}
            self._sizes = tuple(sorted(parts, reverse=True))
        if course.is_stream:
            # A short batch would be taken for a quick one, and its epochs are no whole ones.
            return replace(course, drops_last=True, is_length_told=True)
        return replace(course, global_batch=1, num_shards=None)

    def known_steps(self, own: int | None) -> int:
        welcome, per_epoch = self.welcome, self.course.steps_per_epoch
        steps = welcome.total_steps or own
        if welcome.total_steps is None and welcome.epochs is not None and per_epoch:
            steps = max(1, round(welcome.epochs * per_epoch))
        most = min(per_epoch or UNBOUNDED, steps or UNBOUNDED) - 1
        self.shown = ShownCounts(self.course.global_batch, max(1, most))
        return steps or NO_END

    def end_epoch(self, own: int | None) -> int | None:
        return None

    def _tell_ready(self, task: Task) -> None:
        """Take over what is to be trained, and tell the agent that it is there."""
        self._task = task
        task.state.encode()  # raises before anything is measured, if something cannot be saved
        self._link.send(messages.Ready())

    def enter(self, task: Task) -> Host:
        check_no_group(self.positions)
        self._tell_ready(task)
        if task.own is not None:
            per_epoch = replace(self.course, global_batch=task.own.batch, num_shards=None).steps_per_epoch
            num_steps = task.own.steps or (task.own.epochs or 0) * per_epoch
            facts = {"num_steps": num_steps, "has_schedule": bool(task.state.schedulers)}
            self._own = msgspec.structs.replace(task.own, **facts)
        if self.welcome.compares and self.positions.num == 1:  # several prove themselves before they join
            has_passes = self.max_local_batch is not None
            most = min(max(self._sizes, default=MOST_SAMPLES), self.max_local_batch or MOST_SAMPLES)
            comparison = SizeComparison(task, self.course, most, has_passes)
            self._tried = comparison if comparison.is_possible else None
        if not self._sizes and self._tried is None and not self._resumes:
            self._finish_trial()
        return self

    # ------------------------------------------------------------ what is tried, one after the other
    def _trial(self) -> Generator[ShareOf | None, None, None]:
        """Yield the share of each coming step, and None to go on when the script asks for the next batch."""
        originals = self._task.state.script_values()["variables"]
        if self._tried is not None:
            yield from self._try(self._tried)
        share_of = partial(self._share_of_size, self._least_size)
        if self._resumes:
            yield from self._try(ResumeCheck(self._task, self.shown, share_of, originals))
        yield from self._measure()
        writes_over_files = environ.TRIAL in os.environ and not are_private()
        total_steps, per_epoch = self.welcome.total_steps, self.course.steps_per_epoch
        if writes_over_files or (total_steps is not None and total_steps < per_epoch):
            return  # no epoch ends within the job
        self._link.send(self._profiled(goes_on=True))
        self._task.state.skip_epoch()
        self.shown.steps = per_epoch or self.shown.steps
        self._left_s = time.monotonic()
        yield None
        self._note_between()
        if (sampler := getattr(self.course, "sampler", None)) is not None:
            sampler.order(1)  # raises where the epoch that begins has another length

    def _try(self, tried: SizeComparison | ResumeCheck) -> Generator[ShareOf | None, None, None]:
        self._tried = tried
        self._findings += yield from tried.steps()
        self._tried = None
        if not self._sizes and any(finding.holds for finding in self._findings):
            self._finish_trial()

    def _measure(self) -> Generator[ShareOf | None, None, None]:
        """Time steps of each size, or make one step where there is none to time."""
        for size in self._sizes or [self._least_size]:
            self._size, share_of = size, partial(self._share_of_size, size)
            while not self._is_measured():
                yield share_of
                self._time_step()
            self._note_size()
            if not goes_on(self._sizes, self._compute_s):
                return

    def reach_boundary(self) -> None:
        self._link.heartbeat.note_steps(self._num_begun)
        self._num_begun += 1
        self.shown.begin_step(is_again=isinstance(self._tried, SizeComparison))
        if self._share_of is None or isinstance(self._tried, SizeComparison):
            self._go_on()
        if self._tried is None:
            self._meter.begin_step()
        elif isinstance(self._tried, ResumeCheck):
            self._tried.begin_step()

    def _go_on(self) -> None:
        """Find the next step to make."""
        before = self._share_of
        try:
            self._share_of = next(self._plan)
        except StopIteration:
            self._finish_trial()
        self.notes = self._tried.notes if isinstance(self._tried, ResumeCheck) else None
        if self._share_of is not None and self._share_of is not before:
            self.edition -= 1

    @property
    def is_amid_epoch(self) -> bool:  # type: ignore[override]
        return self._num_begun < self.course.steps_per_epoch

    def share(self, step: int) -> Share:
        assert self._share_of is not None  # noqa: S101 - the script has asked for a batch
        return self._share_of(step)

    def _share_of_size(self, size: int, step: int) -> Share:
        """The share of one of `num_workers` workers that have `size` samples each."""
        course = self.course
        size = max(size, course.least_samples)
        num_shards, most = self.num_shards(size), self.max_local_batch
        if course.num_passes:
            most = tighter(most, -(-size // course.num_passes))
        if course.is_stream:  # which may have no more for several workers
            return course.trial_share(step, range(size), size, num_shards, most)
        own = range(self.rank * size, (self.rank + 1) * size)
        share = course.trial_share(step, own, self.num_workers * size, num_shards, most)
        shards = range(self.rank * num_shards, (self.rank + 1) * num_shards)
        return replace(share, shards=shards, num_shards=self.num_workers * num_shards)

    def num_shards(self, size: int) -> int:
        """The number of shards that a worker with `size` samples holds; 0 if the script asks for none."""
        course = self.course
        if course.num_shards is None:
            return 0
        most = size // course.least_samples
        return max(1, min(most, round(size * course.num_shards / course.global_batch)))

    def reduce(self, share: Share, loss: torch.Tensor, stop: bool) -> StepTotals | None:
        if isinstance(self._tried, SizeComparison):
            self._tried.note(share, loss)
            self.shown.is_tried = True
            if not isinstance(self._task.state.optimizer, OptimizerSet):  # else it counts with its last one
                self.shown.steps += 1
            return None
        self._await_device()
        self._meter.begin_reduce(share)
        return super().reduce(share, loss, stop=False)

    def loss_told(self, own: torch.Tensor) -> torch.Tensor:
        return self._tried.mean_loss.clone() if isinstance(self._tried, SizeComparison) else own

    def _time_step(self) -> None:
        """Note how long the step took that is over."""
        self._await_device()
        self._meter.end_step()
        self.shown.steps += 1
        own_s = self._meter.step_s if self.positions.is_first else 0.0  # by one time all decide alike
        self._timed.append(float(self.positions.sum(torch.tensor(own_s, dtype=torch.float64))))

    def finish_step(self, tally: StepTotals) -> None:
        if self._tried is not None:
            self.shown.steps += 1
        self._go_on()

    def finish(self, is_early: bool) -> None:
        """The script left its loop, perhaps before all was measured: what there is must do."""
        self.settle(None)
        if self._timed:
            self._note_size()
        self._finish_trial()

    def settle(self, error: BaseException | None, line: str = "") -> None:
        """If nothing was measured, the trial run is to be made again without checks."""
        if self._tried is None or (found := self._tried.finding_of(error, line)) is None:
            return
        self._link.send(messages.NotCompared(finding=found))
        exit_now(environ.EXIT_STOPPED)

    def _note_size(self) -> None:
        if not self._sizes:
            return
        num_warm_ups = min(NUM_WARM_UPS, len(self._timed) - 1)
        self._compute_s[self._size] = statistics.median(self._timed[num_warm_ups:])
        self._timed = []

    def _is_measured(self) -> bool:
        """Enough steps, or enough time; slow steps need fewer warm-ups, for the first is all the slower."""

        if len(self._timed) < 2:
            return not self._sizes and len(self._timed) == 1  # there is nothing to time
        num_warm_ups, last = 1 if self._compute_s else NUM_WARM_UPS, self._timed[-NUM_ALIKE:]
        is_alike = min(last) > 0.0 and max(last) / min(last) <= 1.0 + ALIKE_SHARE
        if is_alike and len(self._timed) >= num_warm_ups + NUM_ALIKE:
            return True
        timed = self._timed[NUM_WARM_UPS:] if max(self._timed[1:]) < BUDGET_S else self._timed[1:]
        return sum(timed) >= BUDGET_S or len(timed) >= MAX_TIMED

    def _note_between(self) -> None:
        """The script has done what follows an epoch, or has ended in it."""
        if self._left_s is not None and self._between_s is None:
            self._await_device()
            self._between_s = time.monotonic() - self._left_s

    def _finish_trial(self) -> NoReturn:
        self._note_between()
        self._link.send(self._profiled())
        exit_now(0)

    def _profiled(self, goes_on: bool = False) -> messages.Profiled:
        task = self._task
        return messages.Profiled(
            compute_s=self._compute_s,
            grad_bytes=task.gradients.num_bytes,
            state_bytes=task.state.num_bytes(),
            samples_per_epoch=self.course.samples_per_epoch,
            num_shards=self.course.num_shards,
            goes_on=goes_on,
            between_s=self._between_s,
            findings=self._findings,
            own=self._own,
            save_s=task.state.num_bytes() / COPIED_BYTES_PER_S,
        )


class GroupProfiling(Profiling):
    """One of several workers that make `Welcome.group_steps` steps together and tell how long these took.

    Each has as many samples as the fullest worker of a gang. All make the same number of steps, so that none
    waits for another one at the end.

    References: ElasticFlow, section 5, "Throughput profiling": a pre-run with different numbers of devices.
    """

    is_amid_epoch = False  #: it makes as many steps as it is asked for, whatever an epoch has

    def enter(self, task: Task) -> Host:
        check_no_group(self.positions)
        self._tell_ready(task)
        in_group(self._link, self._group, lambda: None, self.positions)
        return self

    def _trial(self) -> Generator[ShareOf | None, None, None]:
        share_of = partial(self._share_of_size, next(iter(self._sizes), self._least_size))
        for _ in range(NUM_WARM_UPS + self.welcome.group_steps):
            yield share_of
            self._time_step()
        if self.rank == 0:
            self._link.send(messages.GroupStepped(step_s=statistics.median(self._timed[NUM_WARM_UPS:])))
        exit_now(0)

    def finish(self, is_early: bool) -> None:
        """The script left its loop before all steps were made: nothing is told."""
        exit_now(environ.EXIT_STOPPED)


def calibrate() -> None:
    """Join a group like any worker, measure, tell (rank 0), and return."""
    link = open_link()
    group = Group(torch.device(link.welcome.device), link)
    link.send(messages.Ready())
    sizes = messages.CALIBRATED_BYTES
    seconds = in_group(link, group, lambda: {size: _allreduce_s(group, size) for size in sizes})
    if group.rank == 0:
        link.send(messages.Calibrated(allreduce_s=seconds))
    group.close()


def in_group(link: Link, group: Group, do: Callable[[], T], positions: Positions = ALONE) -> T:
    """Join the group of the next order and do something in it, again and again until both has succeeded.

    Args:
        do: may raise GroupBroken.
    """
    while True:
        order = positions.take_order(link)
        assert not isinstance(order, messages.Prove)  # noqa: S101 - only one that trains is to prove itself
        if isinstance(order, messages.Suspend) or order.rank is None:
            link.send(messages.Left(generation=order.generation))
            exit_now(environ.EXIT_STOPPED)
        try:
            group.together(partial(group.form, order))
            link.send(messages.Joined(generation=order.generation, steps=0))
            return do()
        except (Superseded, FormFailed):
            continue
        except GroupBroken as broken:
            link.send(messages.Broken(generation=order.generation, steps=0, message=str(broken)))


def _allreduce_s(group: Group, num_bytes: int) -> float:
    """Median of a few, after one that is not timed; the same number on all workers, in step."""
    tensor, timed = torch.zeros(max(1, num_bytes // 4), device=group.device), list[float]()
    for _ in range(1 + NUM_TIMED):
        begun_s = time.perf_counter()
        group.sum_all(tensor)
        if tensor.is_cuda:
            torch.cuda.synchronize(tensor.device)
        timed.append(time.perf_counter() - begun_s)
    return statistics.median(timed[1:])
