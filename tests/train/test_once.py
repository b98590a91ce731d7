"""The deterministic twin of a gang that changes and breaks: each sample is in the model once an epoch."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from swell.train.data.loader import Feed
from swell.train.data.place import Place
from swell.train.data.sample_schedule import SampleSchedule, Share

NUM_SAMPLES, BATCH, NUM_EPOCHS, MAX_WORKERS = 40, 10, 2, 7

#: Attempts at a step: by how many workers, and after how many passes each of them leaves if it breaks.
attempts = st.lists(st.tuples(st.integers(1, MAX_WORKERS), st.none() | st.integers(0, 5)), max_size=14)


class Gang:
    """Workers that keep their feeds, with what they loaded ahead, from one size to the next."""

    def __init__(self, course: SampleSchedule, bound: int | None) -> None:
        self.course = course
        self.bound = bound
        loader: DataLoader[int] = DataLoader(range(NUM_SAMPLES), batch_size=BATCH)  # type: ignore[arg-type]
        self.feeds = [Feed(loader, torch.device("cpu"), course.seed, course) for _ in range(MAX_WORKERS)]

    def compute(self, step: int, size: int, edition: int, num_passes: int | None) -> list[int]:
        """Ids of the samples that go into a step, or into that part of it that comes to nothing."""
        ids: list[int] = []
        for rank in range(size):

            def share_of(step: int, rank: int = rank) -> Share:
                return self.course.share(step, rank, size, self.bound)

            opened = self.feeds[rank].open(step, share_of, edition)
            assert opened is not None
            share, batches = opened
            for number, batch in enumerate(batches):
                if number == num_passes:
                    break
                ids += batch[: share.passes[number].num_local].tolist()
        return ids


@settings(max_examples=60, deadline=None)
@given(attempts, st.none() | st.integers(1, BATCH), st.integers(1, 4), st.integers(0, 99))
def test_each_sample_comes_once_whatever_the_sizes_and_the_steps_that_come_again(
    attempts: list[tuple[int, int | None]], num_shards: int | None, bound: int, seed: int
) -> None:
    course = SampleSchedule(NUM_SAMPLES, BATCH, True, False, seed, num_shards)
    gang = Gang(course, None if num_shards else bound)
    edition, size = 0, 1
    done: list[list[int]] = []
    todo = iter(attempts)
    while len(done) < NUM_EPOCHS * course.steps_per_epoch:
        new_size, num_passes = next(todo, (size, None))
        edition += new_size != size
        size = new_size
        ids = gang.compute(len(done), size, edition, num_passes)
        if num_passes is None:
            done.append(ids)
            course.finish_step(course.share(course.place.step, 0, 1))
        else:
            edition += 1  # the survivors form a group
    for epoch in range(NUM_EPOCHS):
        steps = done[epoch * course.steps_per_epoch :][: course.steps_per_epoch]
        assert sorted(chain(*steps)) == list(range(NUM_SAMPLES))
    course = replace(course, place=Place())
    alone = [course.share(step, 0, 1).passes for step in range(len(done))]
    assert done == [[index for part in passes for index in part.indices] for passes in alone]
