"""What befalls a run, round by round, and what each change cost it."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from tests.ray.cluster import RayNode

from benchmarks.ray.settings import NOTICE_S
from benchmarks.ray.sides import Side
from benchmarks.ray.site import NUM_NODES, Site
from benchmarks.training.pauses import Pause, Stretch, pause_of
from benchmarks.training.sides import wait_for_group

NUM_FIRST = 2
GROWTH, LOSS, NOTICE = "growth", "loss", "notice"
CHANGES = {
    GROWTH: f"{NUM_FIRST} to {NUM_NODES}: two nodes join",
    LOSS: f"{NUM_NODES} to {NUM_NODES - 1}: a machine dies",
    NOTICE: f"{NUM_NODES - 1} to {NUM_FIRST}: a node is drained",
}
#: Steps of the new group that a change is given, the first among them.
NUM_STEPS = 9
LIMIT_S = 240.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one change. Seconds."""

    pause: Pause
    longest_s: float  #: time without a finished step
    known_s: float | None  #: from the kill until Ray knew; None: no node was killed
    reached_s: Mapping[str, float] = field(default_factory=dict)  #: from the cause to what is on the way

    @property
    def beyond_s(self) -> float | None:
        """From when Ray knew to the end of the next step."""
        return None if self.known_s is None else self.pause.to_next_step_s - self.known_s


class Course:
    """One side's run on one site. Which nodes go is drawn: the same ones for both sides."""

    def __init__(self, site: Site, side: Side, seed: int) -> None:
        self._site, self._side = site, side
        self._random = random.Random(seed)
        self._up = list(site.nodes[:NUM_FIRST])
        self._down = list(site.nodes[NUM_FIRST:])

    @property
    def up(self) -> Sequence[RayNode]:
        """Nodes on which the job trains now."""
        return self._up

    def run(self, num_rounds: int) -> dict[str, list[Cost]]:
        """By change."""
        costs: dict[str, list[Cost]] = {change: [] for change in CHANGES}
        for node in self._down:
            self._site.kill(node)
        self._side.start(self._up)
        for _ in range(num_rounds):
            for change, go_through in ((GROWTH, self._grow), (LOSS, self._lose), (NOTICE, self._drain)):
                before = len(self._history(len(self._up))) - 1
                cost = go_through(before)
                print(
                    f"  {self._side.name}, {CHANGES[change]}: {cost.pause.pause_s:.2f} s",
                    file=sys.stderr,
                    flush=True,
                )
                costs[change].append(cost)
        return costs

    def _grow(self, before: int) -> Cost:
        begun_s = time.time()
        joined_s = self._site.join(self._down)
        reached_s = self._side.joined(self._down)
        self._up, self._down = [*self._up, *self._down], []
        cost = self._cost(before, joined_s, begun_s)
        return replace(cost, reached_s={what: at_s - joined_s for what, at_s in reached_s.items()})

    def _lose(self, before: int) -> Cost:
        node = self._take()
        loss = self._site.kill(node)
        return self._cost(before, loss.killed_s, loss.killed_s, loss.known_s - loss.killed_s)

    def _drain(self, before: int) -> Cost:
        node = self._take()
        told_s = self._site.drain(node, NOTICE_S)
        time.sleep(max(0.0, told_s + NOTICE_S - time.time()))  # that is what the notice said
        self._site.kill(node)
        return self._cost(before, told_s, told_s)

    def _take(self) -> RayNode:
        node = self._up.pop(self._random.randrange(len(self._up)))
        self._down.append(node)
        return node

    def _cost(self, before: int, cause_s: float, begun_s: float, known_s: float | None = None) -> Cost:
        history = self._history(len(self._up), before + 1)
        return Cost(
            pause_of(history, before, len(history) - 1, cause_s),
            longest_wait_s(history[before:], begun_s),
            known_s,
        )

    def _history(self, num_workers: int, num_before: int = 0) -> list[Stretch]:
        return wait_for_group(self._side, num_before, num_workers, NUM_STEPS, LIMIT_S)


def longest_wait_s(history: Sequence[Stretch], begun_s: float) -> float:
    """The longest time in which no step was finished, from `begun_s` to the first step of the last group."""
    ends_s = sorted(end_s for stretch in history for end_s in stretch.ends_s.values())
    first_s = min(history[-1].ends_s.values())
    return max(after - before for before, after in pairwise(ends_s) if begun_s < after <= first_s)
