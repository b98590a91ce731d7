"""A program at the machine of the head: a platform that machines join, and jobs on it.

    python -m swell_papers.reclaim_player < ORDER.json

It finds the platform by the state folder of the environment, submits the jobs of a `PlayOrder` when they are
due, and prints a line of JSON for each thing that the process which starts the machines has to know.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from swell.api.client import Client, connect
from swell.model.view import ClusterView
from swell_papers.live_run import LOOK_EVERY_S, PlannedJob, Player, begin, ended, nodes_of
from swell_papers.reclaim_record import (
    NodeSeen,
    PlayBegun,
    PlayEnded,
    PlayOrder,
    ProgressSample,
    ScriptsMeasured,
    Told,
)

#: For machines to join, and to be given up.
WITHIN_S = 120.0
#: More than an epoch of the script: else jobs that have several are measured again when they come.
NUM_MEASURED_STEPS = 10


def say(told: Told) -> None:
    print(msgspec.json.encode(told).decode(), flush=True)


@dataclass(slots=True)
class PoolWatch:
    """What the platform shows of nodes and jobs, several times a second."""

    client: Client
    begun_s: float  #: head time
    samples_per_step: dict[str, int] = field(default_factory=dict)  #: by name of job
    seen: list[NodeSeen] = field(default_factory=list)
    progress: list[ProgressSample] = field(default_factory=list)
    _there: set[str] = field(default_factory=set)

    def look(self) -> None:
        cluster = self.client.cluster()
        there = {node.name for node in cluster.nodes}
        lost_s = {node.name: node.lost_s for node in cluster.lost_nodes}
        for name in sorted(there - self._there):
            self._note(name, cluster.now_s, True)
        for name in sorted(self._there - there):
            self._note(name, lost_s.get(name, cluster.now_s), False)
        self._there = there
        views = [view for view in self.client.jobs() if view.submitted_s >= self.begun_s]
        done = sum(view.steps * view.global_batch for view in views)
        self.progress.append(ProgressSample(at_s=cluster.now_s - self.begun_s, num_samples=done))

    def _note(self, name: str, at_s: float, has_joined: bool) -> None:
        self.seen.append(NodeSeen(node=name, at_s=at_s - self.begun_s, has_joined=has_joined))


def await_nodes(client: Client, is_so: Callable[[set[str]], bool]) -> ClusterView:
    """Raises TimeoutError."""
    give_up_s = time.monotonic() + WITHIN_S
    while True:
        cluster = client.cluster()
        if is_so({node.name for node in cluster.nodes}):
            return cluster
        if time.monotonic() > give_up_s:
            there = ", ".join(node.name for node in cluster.nodes) or "none"
            raise TimeoutError(f"the nodes are not those that are waited for; there are: {there}")
        time.sleep(LOOK_EVERY_S)


def play(client: Client, order: PlayOrder, parts: tuple[PlannedJob, ...]) -> PlayEnded:
    cluster = await_nodes(client, lambda names: len(names) == order.num_nodes)
    nodes = nodes_of(cluster)
    player = Player(client)
    trials = player.measure(parts, NUM_MEASURED_STEPS)
    say(ScriptsMeasured())
    await_nodes(client, lambda names: names == order.first)
    player.measure(parts[:1], NUM_MEASURED_STEPS)  # what the loss of the others entails is over then
    begun = begin(player, nodes[0].kind, nodes, trials)
    say(PlayBegun())
    watch = PoolWatch(client, begun.begun_s)
    jobs = player.play(parts, order.played_s, watch.look)
    run = ended(player, begun, jobs)
    return PlayEnded(run=run, seen=tuple(watch.seen), progress=tuple(watch.progress))


def main() -> None:
    order = msgspec.json.decode(sys.stdin.read(), type=PlayOrder)
    with connect() as client:
        say(play(client, order, order.work))


if __name__ == "__main__":
    main()
