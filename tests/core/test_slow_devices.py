"""A device that is slower than the others of its gangs, in two jobs, is known and gets work last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.bench import Bench
from tests.core.fakes import node, spec

from swell.core.slow_devices import FAST_FACTOR, NUM_JOBS, NUM_STEPS, SLOW_FACTOR
from swell.model.event import NodeJoined, NodeLost, Outcome, StepsReported
from swell.placement.best_fit import BestFitPlacer

WINDOW = 40  #: steps from one comparison of a gang to the next


class Lab(Bench):
    """One node of four devices."""

    def __init__(self) -> None:
        super().__init__(4, placer=BestFitPlacer())

    def begin(self, job_id: str, num_workers: int = 2) -> int:
        request = spec(100_000, min_workers=num_workers, max_workers=num_workers)
        return self.run(job_id, num_workers, request)

    def train(
        self, job_id: str, generation: int, factors: dict[str, float], steps: int, since: int = 0
    ) -> None:
        """Report so many steps, and in each window what the workers have compared."""
        for done in range(since, since + steps + 1, WINDOW):
            self.now_s += 1.0
            times = {device: 0.01 * factors.get(device, 1.0) for device in self.job(job_id).devices}
            self.say(
                StepsReported(
                    at_s=self.now_s,
                    job_id=job_id,
                    generation=generation,
                    steps=done,
                    num_workers=len(times),
                    step_s=0.1,
                    sample_s=times,
                )
            )

    def live(self, job_id: str, factors: dict[str, float], steps: int = NUM_STEPS, num: int = 2) -> None:
        """A job that begins, trains and ends."""
        generation = self.begin(job_id, num)
        self.train(job_id, generation, factors, steps)
        self.gone(generation, Outcome.SUCCEEDED, job_id)

    @property
    def slow(self) -> list[str]:
        return [one.device for one in self.core.slow_devices]


BAD = "n0.1"


def test_a_device_that_two_jobs_find_slow_is_told_and_jobs_get_it_last() -> None:
    lab = Lab()
    for number in range(NUM_JOBS):
        assert lab.slow == []
        lab.live(f"job{number}", {BAD: 1.5})
    (found,) = lab.core.slow_devices
    assert (found.device, found.node) == (BAD, "n0")
    assert "takes 1.5 times as long" in found.why and "job0 and job1" in found.why
    assert lab.reborn().slow_devices == lab.core.slow_devices
    first, second = lab.begin("next"), lab.begin("last")
    assert first and second
    assert BAD not in lab.job("next").devices and BAD in lab.job("last").devices


def test_a_slow_device_is_known_until_it_is_fast_again_whatever_jobs_come() -> None:
    lab = Lab()
    for number in range(NUM_JOBS):
        lab.live(f"job{number}", {BAD: 1.5}, num=4)
    (known,) = lab.core.slow_devices
    generation = lab.begin("other", 4)
    lab.train("other", generation, {BAD: 1.5}, WINDOW)
    lab.train("other", generation, {BAD: (FAST_FACTOR + SLOW_FACTOR) / 2}, WINDOW, 2 * WINDOW)
    assert [(one.device, one.since_s) for one in lab.core.slow_devices] == [(BAD, known.since_s)]
    lab.train("other", generation, {}, 0, 4 * WINDOW)
    assert lab.slow == []
    lab.train("other", generation, {BAD: 1.5}, NUM_STEPS, 5 * WINDOW)
    assert lab.slow == [], "it has to be found slow by two jobs again"


@pytest.mark.parametrize("why", ["one job", "too few steps", "too fast", "a fast window"])
def test_what_is_too_little_to_call_a_device_slow(why: str) -> None:
    lab = Lab()
    for number in range(1 if why == "one job" else 3):
        steps = NUM_STEPS - WINDOW if why == "too few steps" else 2 * NUM_STEPS
        factor = SLOW_FACTOR - 0.01 if why == "too fast" else 1.5
        generation = lab.begin(f"job{number}")
        lab.train(f"job{number}", generation, {BAD: factor}, steps)
        if why == "a fast window":
            lab.train(f"job{number}", generation, {}, 0, steps + WINDOW)
        lab.gone(generation, Outcome.SUCCEEDED, f"job{number}")
    assert lab.slow == []


@given(st.lists(st.floats(1.0, SLOW_FACTOR - 0.01), min_size=4, max_size=4))
def test_devices_that_are_nearly_alike_are_never_slow(factors: list[float]) -> None:
    nearly = {f"n0.{place}": one for place, one in enumerate(factors)}
    lab = Lab()
    for number in range(NUM_JOBS):
        lab.live(f"job{number}", nearly, num=4)
    assert lab.slow == []


def test_a_lost_node_is_forgotten() -> None:
    lab = Lab()
    for number in range(NUM_JOBS):
        lab.live(f"job{number}", {BAD: 1.5})
    lab.say(NodeLost(at_s=lab.now_s, name="n0"))
    lab.say(NodeJoined(at_s=lab.now_s, node=node("n0", 4)))
    assert lab.slow == []
