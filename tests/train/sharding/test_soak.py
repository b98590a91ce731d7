"""A job whose state is divided outlives workers killed at random moments, and any order of sizes.

`pytest -m soak -s tests/train/sharding/test_soak.py` also prints how long the others took to go on.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.train.curve_runs import CURVE, assert_same_learning, finish
from tests.train.fake_agent import FakeAgent
from tests.train.sharding.shard_losses import assert_mirrors_equal

from swell.wire import messages

FAULTS = CURVE.with_name("shard_faults.py")  # it is given no fault here, and writes what each worker holds
NUM_WORKERS, NUM_KILLS, NUM_CHANGES = 4, 50, 20
EPOCHS = 160  #: of 8 steps; the last quarter is trained while the test waits
FEW_EPOCHS = 40
PACE_PER_S = 120.0  #: 6 samples a step: 12 ms and more with four workers
SLOW_PACE_PER_S = 30.0
SEED = 1


class Gang:
    """Workers of one agent, which are replaced by new ones."""

    def __init__(self, agent: FakeAgent, epochs: int, args: tuple[str, ...]) -> None:
        self.agent, self._epochs, self._args = agent, epochs, args
        self.members: list[int] = []
        self._num_started = 0

    def start(self, num: int) -> list[int]:
        new = list(range(self._num_started, self._num_started + num))
        self._num_started += num
        self.agent.start_ready(new, FAULTS, *self._args)
        return new

    def join(self, members: list[int], source: int | None) -> int:
        self.members = members
        return self.agent.join(members, source=source)

    def train(self, steps: int) -> None:
        """Some steps more, and a part of one."""
        self.agent.wait_steps(self.members[0], steps)
        time.sleep(random.uniform(0.0, 0.05))

    def finish(self, steps: int) -> None:
        self.agent.let_end()
        for number in range(steps, self._epochs * 8, 50):  # a wait has a limit
            self.agent.wait_steps(self.members[0], number)
        finish(self.agent, self.members, self._epochs)

    def kill(self, ranks: set[int]) -> list[int]:
        """The members that are left."""
        for rank in ranks:
            psutil.Process(self.agent.processes[self.members[rank]].pid).kill()
        return [worker for rank, worker in enumerate(self.members) if rank not in ranks]


def of_generation(number: int) -> Callable[[messages.Broken], bool]:
    return lambda said: said.generation == number


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("word", ["mirrors", "blocks-mirrors"])
def test_with_mirrors_no_step_is_lost(
    start_agent: Callable[..., FakeAgent], run_plain: Callable[..., Path], tmp_path: Path, word: str
) -> None:
    random.seed(SEED)
    plain = run_plain("curve.py", str(EPOCHS))
    agent = start_agent(
        total_steps=EPOCHS * 8,
        pace_per_s=PACE_PER_S,
        checkpoint_interval_s=1e9,
        ends_when_told=True,
    )
    gang = Gang(agent, EPOCHS, (str(tmp_path / "result.json"), str(EPOCHS), word))
    steps, paused_s = gang.join(gang.start(NUM_WORKERS), source=None), []
    for number in range(1, NUM_KILLS + 1):
        gang.train(steps + 2)
        begun_s = time.monotonic()
        rest = gang.kill({random.randrange(NUM_WORKERS)})
        generation = 2 * number - 1
        broken = [agent.wait(worker, messages.Broken, of_generation(generation)).steps for worker in rest]
        joined = gang.join(rest, source=rest[0])
        assert joined >= max(broken)
        agent.wait_steps(rest[0], joined + 1)
        paused_s.append(time.monotonic() - begun_s)
        members = [*rest, *gang.start(1)]
        random.shuffle(members)
        steps = gang.join(members, source=next(worker for worker in members if worker in rest))
        assert steps > joined
    print(
        f"{word}: {NUM_KILLS} kills, next step after {statistics.median(paused_s):.2f} s, at most "
        f"{max(paused_s):.2f} s, steps of {6 / PACE_PER_S / NUM_WORKERS:.3f} s and more, seed {SEED}"
    )
    gang.finish(steps)
    assert_same_learning(tmp_path / "result.json", plain, EPOCHS)
    assert_mirrors_equal(tmp_path, gang.members)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("word", ["shard", "mirrors", "blocks", "blocks-mirrors"])
def test_twenty_changes_of_size_in_three_hundred_steps_change_nothing(
    start_agent: Callable[..., FakeAgent], run_plain: Callable[..., Path], tmp_path: Path, word: str
) -> None:
    random.seed(SEED)
    plain = run_plain("curve.py", str(FEW_EPOCHS))
    agent = start_agent(
        total_steps=FEW_EPOCHS * 8,
        pace_per_s=SLOW_PACE_PER_S,
        checkpoint_interval_s=1e9,
        ends_when_told=True,
    )
    gang = Gang(agent, FEW_EPOCHS, (str(tmp_path / "result.json"), str(FEW_EPOCHS), word))
    steps, sizes = gang.join(gang.start(NUM_WORKERS), source=None), [NUM_WORKERS]
    for _ in range(NUM_CHANGES):
        gang.train(steps + 2)
        sizes.append(random.choice([size for size in range(1, NUM_WORKERS + 1) if size != sizes[-1]]))
        stay = random.sample(gang.members, random.randint(1, min(sizes[-1], sizes[-2])))
        members = [*stay, *gang.start(sizes[-1] - len(stay))]
        random.shuffle(members)
        steps = gang.join(members, source=next(worker for worker in members if worker in stay))
    print(f"{word}: {NUM_CHANGES} changes in {steps} steps: {sizes}, seed {SEED}")
    gang.finish(steps)
    assert_same_learning(tmp_path / "result.json", plain, FEW_EPOCHS)
