"""Laws of a course whose batch changes: a step begins where the one before ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from torch.utils.data import DataLoader, IterableDataset

from swell.train.data.loader import Feed
from swell.train.data.place import UNBOUNDED
from swell.train.data.sample_schedule import SampleSchedule, Share

MAX_SAMPLES = 60


@st.composite
def courses(draw: st.DrawFn) -> SampleSchedule:
    own = draw(st.integers(1, 12))
    num_shards = draw(st.none() | st.integers(1, own))
    total = draw(st.just(UNBOUNDED) | st.integers(1, 200))
    seed = draw(st.integers(0, 99))
    num_samples = draw(st.integers(own, MAX_SAMPLES))
    return SampleSchedule(num_samples, own, draw(st.booleans()), draw(st.booleans()), seed, num_shards, total)


def counted(course: SampleSchedule, step: int, num_workers: int) -> list[int]:
    """Samples of a step, in order."""
    shares = [course.share(step, rank, num_workers) for rank in range(num_workers)]
    return [index for share in shares for part in share.passes for index in part.indices[: part.num_local]]


@settings(deadline=None)
@given(courses(), st.data())
def test_a_run_has_each_sample_of_each_epoch_once_through_any_batches_and_sizes(
    course: SampleSchedule, data: st.DataObject
) -> None:
    plain = SampleSchedule(
        course.num_samples,
        course.global_batch,
        course.is_shuffled,
        course.drops_last,
        course.seed,
        total_steps=course.total_steps,
    )
    end = min(course.total_steps, 3 * course.steps_per_epoch)
    seen: list[int] = []
    while course.own_steps < end:
        course.batch = data.draw(st.integers(1, 90), "batch")
        before = course.own_steps
        seen += counted(course, course.place.step, data.draw(st.integers(1, 5), "workers"))
        course.finish_step(course.share(course.place.step, 0, 1))
        assert course.own_steps >= before and course.samples == len(seen)
    expected = list(chain(*(counted(plain, step, 1) for step in range(end))))
    if course.total_steps == end:
        assert seen == expected and course.own_steps == end
    else:
        assert seen[: len(expected)] == expected
    per_epoch = course.samples_per_epoch
    for start in range(0, len(seen) - per_epoch + 1, per_epoch):
        epoch = seen[start : start + per_epoch]
        assert len(set(epoch)) == per_epoch
        assert course.drops_last or sorted(epoch) == list(range(course.num_samples))


@given(courses(), st.integers(1, 90), st.integers(0, 30), st.integers(0, 30))
@example(SampleSchedule(10, 4, False, False, total_steps=3), 10, 0, 1)  # fewer than steps of the own batch
def test_a_step_is_the_same_from_wherever_it_is_asked_for(
    course: SampleSchedule, batch: int, num_done: int, ahead: int
) -> None:
    course.batch = batch
    for _ in range(num_done):
        course.finish_step(course.share(course.place.step, 0, 1))
    if course.own_steps >= course.total_steps:
        return
    before = replace(course, place=replace(course.place))
    before.batch = batch
    while course.own_steps < course.total_steps and course.place.step <= before.place.step + ahead:
        step, is_last = course.place.step, course.is_at_last_step
        assert counted(course, step, 1) == counted(before, step, 1)
        course.finish_step(course.share(step, 0, 1))
        assert is_last == (course.own_steps >= course.total_steps)


# ---------------------------------------------------------------- a gang: feeds, breaks and checkpoints
class Numbers(IterableDataset[int]):
    def __init__(self, num: int) -> None:
        self.num = num

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.num))


@dataclass
class Worker:
    """Its feed keeps what it loaded ahead from one group to the next."""

    course: SampleSchedule
    feed: Feed


@dataclass
class Model:
    """Which samples are in the model, by epoch."""

    samples: dict[int, Counter[int]] = field(default_factory=dict)

    def copy(self) -> Model:
        return Model({epoch: Counter(seen) for epoch, seen in self.samples.items()})


class Gangs(RuleBasedStateMachine):
    """Real feeds of all workers, at random batches and sizes, with steps that break and ways back."""

    is_stream = False

    def __init__(self) -> None:
        super().__init__()
        self.workers: list[Worker] = []
        self.edition = 0

    @initialize(
        num=st.integers(8, 40),
        own=st.integers(1, 8),
        drops_last=st.booleans(),
        num_shards=st.none() | st.integers(1, 8),
    )
    def begin(self, num: int, own: int, drops_last: bool, num_shards: int | None) -> None:
        self.num, self.own, self.drops_last = num, own, drops_last
        self.num_shards = None if num_shards is None else min(num_shards, own)
        self.model = Model()
        self.workers = [self._worker()]
        self.saved = (self.model.copy(), dict(self.workers[0].course.state_dict()))

    def _worker(self) -> Worker:
        dataset = Numbers(self.num) if self.is_stream else range(self.num)
        loader: DataLoader[int] = DataLoader(dataset, batch_size=self.own)  # type: ignore[arg-type]
        is_shuffled = not self.is_stream
        course = SampleSchedule(
            self.num, self.own, is_shuffled, self.drops_last, 7, self.num_shards, is_stream=self.is_stream
        )
        course.is_length_told = True
        return Worker(course, Feed(loader, torch.device("cpu"), 7, course))

    @rule(size=st.integers(1, 4), batch=st.integers(1, 4) | st.integers(1, 50))
    def regroup(self, size: int, batch: int) -> None:
        """Another batch, another size, or both: joiners get the state of a survivor."""
        place = dict(self.workers[0].course.state_dict())
        self.edition += 1
        self.workers = [*self.workers[:size], *(self._worker() for _ in range(size - len(self.workers)))]
        self._take(place, batch)

    @rule(num=st.integers(1, 6))
    def train(self, num: int) -> None:
        for _ in range(num):
            self._step(is_lost=False)

    @rule()
    def break_step(self) -> None:
        """Somebody dies in a step: all do it again, as another group."""
        self._step(is_lost=True)
        self.edition += 1

    @rule()
    def save(self) -> None:
        self.saved = (self.model.copy(), dict(self.workers[0].course.state_dict()))

    @rule(size=st.integers(1, 4), batch=st.integers(1, 4) | st.integers(1, 50), keeps_feeds=st.booleans())
    def lose_all(self, size: int, batch: int, keeps_feeds: bool) -> None:
        """Back to the checkpoint, at another size and batch."""
        self.edition += 1
        kept = self.workers[:size] if keeps_feeds else []
        self.workers = [*kept, *(self._worker() for _ in range(size - len(kept)))]
        self.model = self.saved[0].copy()
        self._take(self.saved[1], batch)

    def _take(self, place: dict[str, object], batch: int) -> None:
        for worker in self.workers:
            worker.course.load_state_dict(place)
            worker.course.batch = batch

    def _step(self, is_lost: bool) -> None:
        opened = []
        for rank, worker in enumerate(self.workers):

            def share_of(step: int, course: SampleSchedule = worker.course, rank: int = rank) -> Share:
                return course.share(step, rank, len(self.workers))

            course = worker.course
            opened.append(worker.feed.open(course.place.step, share_of, self.edition))
        shares = []
        seen: list[int] = []
        epoch = self.workers[0].course.epoch
        for each in opened:
            if each is None:
                continue
            share, batches = each
            shares.append(share)
            for part, batch in zip(share.passes, batches, strict=True):
                seen += batch[: part.num_local].tolist()
        assert len(shares) in (0, len(self.workers)), "all find the end of an epoch together"
        if not shares:
            for worker in self.workers:
                worker.course.end_epoch()
            return
        assert len(seen) == shares[0].num_global and len({share.mark for share in shares}) == 1
        if is_lost:
            return
        self.model.samples.setdefault(epoch, Counter()).update(seen)
        for worker, share in zip(self.workers, shares, strict=True):
            worker.course.finish_step(share)
        assert len({str(worker.course.state_dict()) for worker in self.workers}) == 1
        self._check()

    def _check(self) -> None:
        course = self.workers[0].course
        for epoch, seen in self.model.samples.items():
            assert max(seen.values()) == 1
            if epoch < course.epoch:
                assert self.drops_last or len(seen) == self.num
                assert len(seen) > self.num - self.own
        assert course.samples == sum(seen.total() for seen in self.model.samples.values())


class StreamGangs(Gangs):
    is_stream = True


TestGangs = Gangs.TestCase
TestStreamGangs = StreamGangs.TestCase
TestGangs.settings = TestStreamGangs.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None
)
