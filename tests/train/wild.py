"""Lead a gang of real workers through sizes and deaths, and read what they did from their diaries.

Everything is decided by a seeded generator and waits for what workers have done, not for a time.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FakeAgent, fork_script, until

from swell.wire import messages

SAME = Path(__file__).parent / "scripts" / "same.py"
NUM_SAMPLES, BATCH, STEPS_PER_EPOCH = 45, 12, 4


@dataclass
class Story:
    """What a run did, from the diaries of all its workers."""

    steps: int
    digest: str
    losses: dict[int, float]
    between: dict[int, list[float]]  #: by step: the numbers drawn after it
    ids: dict[int, list[int]]  #: by step: what was computed for it
    batch: dict[int, int]  #: by step: samples that it was to have, if the epoch had so many left

    def epochs(self) -> list[list[int]]:
        """Ids of each whole epoch, sorted. A step lies in one epoch."""
        epochs: list[list[int]] = [[]]
        for step in sorted(self.ids):
            epochs[-1] += self.ids[step]
            if len(epochs[-1]) >= NUM_SAMPLES:
                epochs.append([])
        return [sorted(ids) for ids in epochs if len(ids) >= NUM_SAMPLES]

    def batches(self) -> list[int]:
        return [self.batch[step] for step in sorted(self.batch)]


def read_story(folder: Path) -> Story:
    """Of the generations that finished a step the last one's work is in the model: the others' was lost."""
    lines: list[dict[str, Any]] = []
    for diary in folder.glob("diary-*"):
        lines += map(json.loads, diary.read_text().splitlines())
    finished = [line for line in lines if "finished" in line]
    last: dict[int, int] = defaultdict(int)
    for line in finished:
        last[line["finished"]] = max(last[line["finished"]], line["generation"])
    ids: dict[int, list[int]] = {step: [] for step in last}
    batch: dict[int, int] = {}
    for line in lines:
        if "computed" in line and last.get(line["computed"]) == line["generation"]:
            ids[line["computed"]] += line["ids"]
            batch[line["computed"]] = line["batch"]
    told: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for line in finished:
        if last[line["finished"]] == line["generation"]:
            told[line["finished"]].append(line)
    for same in told.values():
        assert len({(line["loss"], *line["between"]) for line in same}) == 1  # all workers say the same
    result = json.loads((folder / "result.json").read_text())
    losses = {step: same[0]["loss"] for step, same in told.items()}
    between = {step: same[0]["between"] for step, same in told.items()}
    return Story(result["steps"], result["digest"], losses, between, ids, batch)


def run_alone(folder: Path, epochs: int, *words: str, batches: Sequence[int] = ()) -> Story:
    """The script by itself, in one process; `batches`: of each step, if they are not its own."""
    folder.mkdir()
    if batches:
        (folder / "batches").write_text(json.dumps(batches))
    process = fork_script(SAME, (str(folder), str(epochs), *words), folder / "log", {})
    process.join(PATIENCE_S)
    assert process.exitcode == 0, (folder / "log").read_text()
    return read_story(folder)


@dataclass
class Ride:
    """A gang under way: it does no more steps than it is let do, however long others take to start."""

    agent: FakeAgent
    folder: Path
    args: tuple[str, ...]
    batches: Sequence[int | None] = (None,)  #: one of them at each change
    members: list[int] = field(default_factory=list)
    generation: int = 0
    num_started: int = 0
    num_allowed: int = 0
    sizes: list[int] = field(default_factory=list)

    def resize(self, num_workers: int, rng: random.Random) -> None:
        """Keep some of the members, in a new order, and start what is missing."""
        stayers = rng.sample(self.members, min(num_workers, len(self.members)))
        joiners = list(range(self.num_started, self.num_started + num_workers - len(stayers)))
        self.num_started += len(joiners)
        self.agent.start_ready(joiners, SAME, *self.args)
        source = rng.choice(stayers) if stayers else None
        members = [*stayers, *joiners]
        rng.shuffle(members)
        self._join(members, source, rng)

    def kill(self, rng: random.Random) -> None:
        """One dies while all compute, and the others go on without it."""
        victim = rng.choice(self.members)
        survivors = [member for member in self.members if member != victim]
        self.allow(self.num_allowed + rng.randrange(4))
        self.agent.kill(victim)
        self._until_said(survivors, messages.Broken)
        steps = {
            member: self.agent.wait(
                member, messages.Broken, lambda told: told.generation == self.generation
            ).steps
            for member in survivors
        }
        self._join(survivors, max(survivors, key=steps.__getitem__), rng)

    def go_on(self, num_steps: int) -> None:
        """Let it do so many more steps, and wait until they are done."""
        self.allow(self.num_allowed + num_steps)
        until(lambda: self._num_finished() >= self.num_allowed)

    def allow(self, num_steps: int) -> None:
        self.num_allowed = num_steps
        draft = self.folder / "draft"
        draft.write_text(str(num_steps))
        draft.rename(self.folder / "allowed")

    def finish(self) -> Story:
        self.allow(10**9)
        for member in self.members:
            self.agent.wait(member, messages.Finished)
            assert self.agent.exit_status(member) == 0, self.agent.logs()
        return read_story(self.folder)

    def _join(self, members: list[int], source: int | None, rng: random.Random) -> None:
        batch = rng.choice(self.batches) if len(self.batches) > 1 else self.batches[0]
        self.generation = self.agent.regroup(members, source, batch)
        self._until_said(members, messages.Joined)
        steps = {self.agent.wait(member, messages.Joined, self._is_of_now).steps for member in members}
        assert len(steps) == 1
        self.members = members
        self.sizes.append(len(members))

    def _until_said(self, members: list[int], kind: type[messages.Joined | messages.Broken]) -> None:
        """Let it do a step more whenever it has come to a halt: orders and deaths are noticed in steps."""

        def have_said() -> bool:
            said = {worker for worker, told in self.agent.all_said(kind) if self._is_of_now(told)}
            if said >= set(members) or self.agent.all_said(messages.Failed):
                return True
            if self._num_finished() >= self.num_allowed:
                self.allow(self.num_allowed + 1)
            return False

        until(have_said)

    def _is_of_now(self, told: messages.Joined | messages.Broken) -> bool:
        return told.generation == self.generation

    def _num_finished(self) -> int:
        num_finished = 0
        for diary in self.folder.glob("diary-*"):
            whole = diary.read_text().rpartition("\n")[0]  # the line behind that is being written
            for line in map(json.loads, whole.splitlines()[-1:]):
                num_finished = max(num_finished, line.get("computed", 0), line.get("finished", -1) + 1)
        return num_finished


def ride(
    agent: FakeAgent,
    folder: Path,
    epochs: int,
    words: Sequence[str],
    sizes: Sequence[int],
    seed: int,
    batches: Sequence[int | None] = (None,),
) -> tuple[Story, list[int]]:
    """Through random sizes, batches and two deaths; returns the story and the sizes that there were."""
    rng = random.Random(seed)
    folder.mkdir()
    gang = Ride(agent, folder, (str(folder), str(epochs), *words), batches)
    gang.allow(1)
    gang.resize(rng.choice(sizes), rng)
    deaths = set(rng.sample(range(6), 2))
    for number in range(6):
        gang.go_on(rng.randrange(1, 5))
        if number in deaths:
            if len(gang.members) == 1:
                gang.resize(max(sizes), rng)
                gang.go_on(rng.randrange(3))
            gang.kill(rng)
        else:
            gang.resize(rng.choice([size for size in sizes if size != len(gang.members)]), rng)
    return gang.finish(), gang.sizes
