"""Run one training script at any size, through resizes, kills and resumes, and read what it has learnt.

A script has batches of `BATCH`, and knows nothing of these tests, which have it compute in float64. What it
has learnt is the model of its last checkpoint, or what it saves at the path that is its argument.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import IN_DOUBLE, STEPS_ALLOWED, UNLIMITED, FakeAgent

from swell.script_facts import ScriptFinding
from swell.train.state.checkpoint import load_checkpoint
from swell.wire import messages

BATCH, NUM_STEPS = 12, 80
Said = TypeVar("Said", messages.Joined, messages.Broken, messages.Left)
T = TypeVar("T")
#: Largest difference of two numbers that ought to be the same, in float64: rounding in another order.
TOLERANCE = 1e-9


def agent_in(folder: Path, **fields: Any) -> FakeAgent:
    """An agent of scripts that compute in float64."""
    agent = FakeAgent(folder, global_batch=BATCH, **fields)
    agent.environ[IN_DOUBLE] = "1"
    return agent


class NotProved(AssertionError):
    """A worker has come to something else than the others, and its job's owner is told."""

    def __init__(self, told: str, findings: Sequence[ScriptFinding] = ()) -> None:
        super().__init__("; ".join([told, *(found.sentence for found in findings)]))
        self.findings = findings


@dataclass
class Outcome:
    """What a script has learnt and told."""

    parameters: dict[str, torch.Tensor]
    metrics: dict[str, tuple[int, float]]  #: the last step and value of each name, the loss among them
    hints: list[str] = field(default_factory=list)  #: that its owner was told of a difference

    def differences(self, other: Outcome) -> dict[str, float]:
        """Largest absolute difference, by name, of what differs by more than rounding."""
        if self.parameters.keys() != other.parameters.keys() or self.metrics.keys() != other.metrics.keys():
            return {"names": float("inf")}
        gaps = {
            name: float((value - other.parameters[name]).abs().max())
            for name, value in self.parameters.items()
            if value.numel()
        }
        for name, (step, value) in self.metrics.items():
            other_step, other_value = other.metrics[name]
            gaps[name] = abs(value - other_value) if step == other_step else float("inf")
        return {name: gap for name, gap in gaps.items() if not gap <= TOLERANCE}


@dataclass
class Gang:
    """A job of one script under an agent, whose test says how many steps it may make."""

    script: Path
    folder: Path
    agent: FakeAgent = field(init=False)
    members: list[int] = field(default_factory=list)
    num_started: int = 0
    num_allowed: int = 0
    not_proved: list[str] = field(default_factory=list)  #: why workers have joined all the same
    generation: int = 0

    def __post_init__(self) -> None:
        self.agent = agent_in(self.folder, total_steps=NUM_STEPS, checkpoint_interval_s=3600.0)
        self.allow_more(0)
        self.agent.environ[STEPS_ALLOWED] = str(self.folder / "allowed")

    def allow_more(self, num_steps: int) -> None:
        """Let it make so many more steps, however long others take to start."""
        self.num_allowed += num_steps
        draft = self.folder / "draft"
        draft.write_text(str(self.num_allowed))
        draft.rename(self.folder / "allowed")

    def resize(self, num_workers: int, rng: random.Random) -> None:
        """Keep some of the members, in another order, and start what is missing: one proves itself."""
        stayers = rng.sample(self.members, min(num_workers, len(self.members)))
        joiners = list(range(self.num_started, self.num_started + num_workers - len(stayers)))
        self.num_started += len(joiners)
        if joiners and self.num_started > len(joiners):
            self._prove(is_noted=not stayers)
        self.agent.start_ready(joiners, self.script, str(self.folder / "final.pt"))
        source = rng.choice(stayers) if stayers else None
        members = [*stayers, *joiners]
        rng.shuffle(members)
        self._join(members, source)

    def audit(self, steps: int) -> None:
        """After so many steps have a worker prove itself that does not join. Raises NotProved."""
        self.allow_more(max(0, steps - self.num_allowed))
        self._train_until(lambda: self._has_ended or self._steps >= steps, f"step {steps}")
        self._prove()

    @property
    def _has_ended(self) -> bool:
        return any(by in self.members for by, _ in self.agent.all_said(messages.Finished))

    @property
    def _steps(self) -> int:
        return max((told.steps for _, told in self.agent.all_said(messages.Progress)), default=0)

    def _witness(self) -> None:
        """Have the gang save, and note the step after that."""
        num_before = len(self.agent.all_said(messages.Witnessed))
        self.agent.tell(self.members[0], messages.Witness())
        self._train_until(
            lambda: self._has_ended or self.agent.all_said(messages.Witnessed)[num_before:], "no witness"
        )

    def _prove(self, is_noted: bool = False) -> None:
        """Have a worker prove itself, which then leaves. Raises NotProved.

        Args:
            is_noted: a step, by a gang that has left.
        """
        worker, self.num_started = self.num_started, self.num_started + 1
        self.agent.start_ready([worker], self.script, str(self.folder / "final.pt"))
        if not is_noted:
            self._witness()
        if self._has_ended:
            self.agent.kill(worker)
            return
        self.agent.tell(worker, messages.Prove())
        proved = self.agent.wait(worker, messages.Proved)
        if proved.steps is None:
            self.not_proved.append(proved.why_not)
            self.agent.kill(worker)
        if found := [finding for finding in proved.findings if finding.holds]:
            raise NotProved(f"after {proved.steps} steps", found)

    def kill(self, rng: random.Random) -> None:
        """Kill a member in a step; the others repeat that step without it."""
        victim = rng.choice(self.members)
        survivors = [member for member in self.members if member != victim]
        self.agent.kill(victim)
        broken = self._until_said(messages.Broken, survivors)
        self._join(survivors, max(survivors, key=lambda member: broken[member].steps))

    def suspend(self) -> None:
        """Have all members save the state and leave, as `swell down` does."""
        self.agent.suspend()
        self._until_said(messages.Left, self.members)
        self.members = []

    def finish(self, audited: Iterable[int] = ()) -> Outcome:
        """Train to the end, with audits after so many steps. Raises NotProved."""
        for steps in audited:
            self.audit(steps)
        self.allow_more(UNLIMITED)
        have_ended = [self.agent.ends_or_breaks(member, self.generation) for member in self.members]
        left = [said for _, said in self.agent.all_said(messages.Finished)]
        if left and not all(have_ended):
            raise NotProved(f"step {left[0].steps}: a worker has left its loop alone, at {left[0].place}")
        for member in self.members:
            self.agent.wait(member, messages.Finished)
            assert self.agent.exit_status(member) == 0, self.agent.logs()
        own = self.folder / "final.pt"
        state = load_checkpoint(self.agent.checkpoint_dir)
        parameters = torch.load(own) if own.exists() else state["model"]
        points: dict[str, tuple[int, float]] = {}
        for _, said in self.agent.said:
            if isinstance(said, messages.Progress | messages.Reported):
                for name, tally in said.curves.items():
                    last = float("nan") if tally.last is None else float(tally.last)
                    points[name] = max(points.get(name, (0, 0.0)), (tally.last_step, last))
        hints = [told.sentence for _, told in self.agent.all_said(messages.DriftFound)]
        found = [told.finding for _, told in self.agent.all_said(messages.ScriptFound)]
        hints += [each.sentence for each in found if each.name == "own-share"]
        return Outcome(parameters, points, hints)

    def _join(self, members: Sequence[int], source: int | None) -> None:
        self.members = list(members)
        self.generation = self.agent.regroup(members, source)
        self._until_said(messages.Joined, members)

    def _until_said(self, kind: type[Said], members: Sequence[int]) -> dict[int, Said]:
        """Let it train until all of them have said it of this generation."""

        def said() -> dict[int, Said]:
            told = {by: told for by, told in self.agent.all_said(kind) if told.generation == self.generation}
            return told if told.keys() >= set(members) else {}

        return self._train_until(said, f"{kind.__name__} of {members}")

    def _train_until(self, answer: Callable[[], T], what: str) -> T:
        """Let it train, a step at a time, until there is an answer.

        After two steps it gets one more each second: the job must not be over before its last event, and on a
        busy machine there are some twenty of these waits.
        """
        limit_s = time.monotonic() + PATIENCE_S
        num_turns = 0
        while True:
            if found := answer():
                return found
            assert time.monotonic() < limit_s, f"{what}: {self.agent.logs()}"
            if num_turns < 2 or num_turns % 100 == 0:
                self.allow_more(1)
            num_turns += 1
            time.sleep(0.01)


def marked_line(script: Path, mark: str) -> tuple[int, str]:
    """The line with the comment `# MARK: TEXT`, and its text."""
    lines = enumerate(script.read_text().splitlines(), 1)
    [(number, text)] = [
        (number, line.split(f"# {mark}: ")[1]) for number, line in lines if f"# {mark}: " in line
    ]
    return number, text


def outcome_at(script: Path, folder: Path, num_workers: int, audited: Iterable[int] = ()) -> Outcome:
    """Train with this many workers from the first step to the last."""
    gang = Gang(script, folder)
    try:
        gang.resize(num_workers, random.Random(0))
        return gang.finish(audited)
    finally:
        gang.agent.close()


#: Which changes a job goes through, in an order that is drawn.
MANY_CHANGES = ("resize",) * 10 + ("kill",) * 2 + ("down",) * 2
FEW_CHANGES = ("resize",) * 3 + ("kill", "down")


def outcome_of_a_life(
    script: Path, folder: Path, seed: int, life: Sequence[str], audited: Iterable[int] = ()
) -> Outcome:
    """Train through these resizes, kills, and times down and up, in an order drawn by `seed`."""
    rng = random.Random(seed)
    events = list(life)
    rng.shuffle(events)
    gang = Gang(script, folder)
    gang.agent.spans_hosts = seed % 2 == 1  # sums begin within the backward pass there
    try:
        gang.resize(rng.randint(1, 4), rng)
        for event in events:
            gang.allow_more(rng.randint(0, 1))
            if event == "kill":
                if len(gang.members) == 1:
                    gang.resize(rng.randint(2, 4), rng)
                gang.kill(rng)
            else:
                if event == "down":
                    gang.suspend()
                gang.resize(rng.randint(1, 4), rng)
        return gang.finish(audited)
    finally:
        gang.agent.close()
