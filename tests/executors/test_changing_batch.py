"""Real gangs whose batch and size change many times under kills: each sample once an epoch."""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.executors.listening import Listener, eventually
from tests.executors.puppets import devices, make_spec

from swell.executors.gang.gang_settings import GangSettings, WorkerSettings
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import parse_devices
from swell.executors.local.link import LocalExecutor
from swell.model.command import LaunchGang, Reconfigure
from swell.model.event import (
    GangEnded,
    GangEvent,
    GangResized,
    GangStarted,
    Outcome,
    ResizeFailed,
    WorkersLost,
)
from swell.model.target import Configuration, Target

pytest.importorskip("torch")
SCRIPT = Path(__file__).with_name("train_blobs.py")
NUM_SAMPLES, OWN, EPOCHS = 480, 32, 30
TOTAL_STEPS = EPOCHS * NUM_SAMPLES // OWN
MIN_BATCH, MAX_BATCH = 8, 256
LIMIT_S = 60.0
#: That a gang is let do while it is to change.
STEP_EVERY_S = 0.1
GangKey = tuple[int, int]


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[LocalExecutor]:
    gang_settings = GangSettings(worker_settings=WorkerSettings(checkpoint_interval_s=0.3))
    options = AgentOptions(state_dir=tmp_path / "state", gang_settings=gang_settings)
    executor = LocalExecutor(options, parse_devices("paced:4@4000"))
    yield executor
    executor.shut_down()


@dataclass
class Ride:
    """One job, and a head that changes its mind. The job does no more steps than it is let do."""

    executor: LocalExecutor
    folder: Path
    seed: int
    listener: Listener = field(default_factory=Listener)
    generation: int = 0
    num_launches: int = 0
    target: Target = field(default_factory=lambda: Target(devices=()))
    held: Target = field(default_factory=lambda: Target(devices=()))
    pids: tuple[int, ...] = ()
    num_allowed: int = 0
    sizes: list[int] = field(default_factory=list)  #: that were had
    batches: list[int] = field(default_factory=list)
    num_kills: int = 0
    num_seen: int = 0

    def __post_init__(self) -> None:
        self.executor.start(self.listener.put)
        self.chance = Random(self.seed)

    # ------------------------------------------------------------ what it is told
    def launch(self) -> None:
        self.num_launches += 1
        args = (str(self.folder), str(self.num_launches), str(self.seed))
        spec = make_spec(
            entry=str(SCRIPT),
            workdir=str(self.folder),
            args=args,
            global_batch=OWN,
            min_batch=MIN_BATCH,
            max_batch=MAX_BATCH,
            seed=self.seed,
        )
        self._aim()
        self.executor.perform(
            LaunchGang(
                job_id="job",
                generation=self.generation,
                target=self.target,
                spec=spec,
                total_steps=TOTAL_STEPS,
            )
        )

    def change(self, target: Target | None = None) -> None:
        self._aim(target)
        self.executor.perform(Reconfigure(job_id="job", generation=self.generation, target=self.target))

    def _aim(self, target: Target | None = None) -> None:
        self.generation += 1
        if target is None:
            chosen = self.chance.sample(range(4), self.chance.randint(1, 4))
            batch = self.chance.choice([None, MIN_BATCH, 24, 48, 64, 100, 128, MAX_BATCH])
            target = Target(devices=devices(*chosen), configuration=Configuration(global_batch=batch))
        self.target = target

    def kill(self, num: int) -> None:
        for pid in self.chance.sample(self.pids, min(num, len(self.pids))):
            try:
                os.kill(pid, signal.SIGKILL)
                self.num_kills += 1
            except ProcessLookupError:
                pass  # it has just left

    def allow(self, num_steps: int) -> None:
        self.num_allowed = num_steps
        draft = self.folder / "draft"
        draft.write_text(str(num_steps))
        draft.rename(self.folder / "allowed")

    # ------------------------------------------------------------ what it does
    def until_settled(self) -> None:
        """All that was asked for is answered. A gang that has come to a halt is let do a step more.

        Not as fast as it can, and less and less: on a busy machine the job would be done before the change.
        """
        allowed_s, pause_s = -math.inf, STEP_EVERY_S

        def is_settled() -> bool:
            nonlocal allowed_s, pause_s
            self._hear_all()
            if self.held == self.target and self.pids:
                return True
            num_done = self._num_done()
            if num_done >= self.num_allowed and time.monotonic() >= allowed_s + pause_s:
                self.allow(num_done + 1)  # an update of a large batch is several steps
                allowed_s, pause_s = time.monotonic(), 1.2 * pause_s
            return False

        eventually(is_settled, LIMIT_S)

    def go_on(self, num_steps: int) -> None:
        """Let it do so many more, and wait until they are done."""
        self.allow(max(self.num_allowed, self._num_done()) + num_steps)

        def is_done() -> bool:
            self._hear_all()
            return self._num_done() >= self.num_allowed

        eventually(is_done, LIMIT_S)
        self.until_settled()

    def _num_done(self) -> int:
        """Steps that some worker has finished in this launch."""
        num_done = 0
        for diary in self.folder.glob("diary-*"):
            whole = diary.read_text().rpartition("\n")[0]  # the line behind that is being written
            for line in map(json.loads, whole.splitlines()[-2:]):
                if line["group"][0] == self.num_launches:
                    num_done = max(num_done, line.get("steps", 0))
        return num_done

    def _hear_all(self) -> None:
        events = self.listener.events[self.num_seen :]
        self.num_seen += len(events)
        for event in events:
            if isinstance(event, GangEvent):
                self._hear(event)

    def _hear(self, event: GangEvent) -> None:
        if isinstance(event, GangStarted | GangResized) and event.generation == self.generation:
            self.held, self.pids = self.target, event.pids
            self.sizes.append(len(self.held.devices))
            self.batches.append(self.held.configuration.global_batch or OWN)
        elif isinstance(event, WorkersLost):
            left = tuple(device for device in self.held.devices if device not in event.devices)
            self.pids = ()
            if left:
                self.held = Target(devices=left, configuration=self.held.configuration)
                self.change(self.held)
        elif isinstance(event, ResizeFailed) and event.generation == self.generation:
            self.change(self.held)
        elif isinstance(event, GangEnded) and event.generation == self.generation:
            assert event.outcome is Outcome.LOST, event.message
            self.pids, self.held = (), Target(devices=())
            self.launch()


def ride(executor: LocalExecutor, folder: Path, seed: int, num_changes: int) -> Ride:
    """Through changes of batch and size, and a kill with every third."""
    folder.mkdir()
    made = Ride(executor, folder, seed)
    made.allow(2)
    made.launch()
    made.until_settled()
    for number in range(num_changes):
        made.go_on(made.chance.randint(1, 6))
        if number % 3 == 2:
            made.kill(4 if number % 6 == 5 else 1)  # all: it goes on from its checkpoint
        made.change()
        if number % 3 == 1:
            made.kill(1)
        made.until_settled()
    made.allow(10**9)
    ended = made.listener.wait(GangEnded, made.generation, limit_s=LIMIT_S)
    assert ended.outcome is Outcome.SUCCEEDED and ended.steps == TOTAL_STEPS, ended.message
    return made


# ---------------------------------------------------------------- what is in the model
def epochs_of(folder: Path) -> list[list[int]]:
    """Ids of the samples that are in the model, by epoch, from the diaries of all workers that there were."""
    lines: list[dict[str, Any]] = []
    for diary in folder.glob("diary-*"):
        lines += map(json.loads, diary.read_text().splitlines())
    computed: dict[tuple[GangKey, int], list[int]] = defaultdict(list)
    finished: dict[GangKey, set[int]] = defaultdict(set)
    for line in lines:
        group: GangKey = tuple(line["group"])
        if "finished" in line:
            finished[group].add(line["finished"])
        else:
            computed[group, line["computed"]] += line["ids"]
    made: dict[int, GangKey] = {}  # update -> the group whose work is in the model
    for group in sorted(finished):
        first = min(finished[group])  # it goes on from there: what others did later is lost
        made = {update: by for update, by in made.items() if update < first}
        made |= dict.fromkeys(finished[group], group)
    assert sorted(made) == list(range(len(made)))
    ids = list(chain(*(computed[made[update], update] for update in sorted(made))))
    return [sorted(ids[start : start + NUM_SAMPLES]) for start in range(0, len(ids), NUM_SAMPLES)]


def loss_of(folder: Path) -> float:
    result = json.loads((folder / "result.json").read_text())
    assert (result["steps"], result["samples"]) == (TOTAL_STEPS, EPOCHS * NUM_SAMPLES)
    return float(result["loss"])


@pytest.mark.slow
def test_each_sample_once_an_epoch_through_batches_sizes_and_kills(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    made = ride(executor, tmp_path / "run", seed=1, num_changes=6)
    assert made.num_kills >= 3 and len(set(made.batches)) > 2 and len(set(made.sizes)) > 1
    assert epochs_of(made.folder) == [list(range(NUM_SAMPLES))] * EPOCHS
    loss_of(made.folder)
