"""A program at the machine of the head: a platform that machines join, and jobs on it.

    python -m swell_papers.reclaim_player < ORDER.json

It finds the platform by the state folder of the environment, submits the jobs of a `PlayOrder` when they are
due, and prints a line of JSON for each thing that the process which starts the machines has to know.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec
import optuna

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
    SearchEnded,
    SearchWork,
    Told,
)

#: For machines to join, and to be given up.
WITHIN_S = 120.0
#: More than an epoch of the script: else jobs that have several are measured again when they come.
NUM_MEASURED_STEPS = 10
#: Of the trials that get to 1, 3 or 9 epochs the best third goes on.
PRUNER = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)


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


def search(client: Client, order: PlayOrder, work: SearchWork) -> SearchEnded:
    """Submit the trials once the nodes are those of time 0; what became of them by the end of the order."""
    await_nodes(client, lambda names: len(names) == order.num_nodes)
    say(ScriptsMeasured())  # each trial has arguments of its own, and is measured when it comes
    cluster = await_nodes(client, lambda names: names == order.first)
    say(PlayBegun())
    until_s = time.monotonic() + order.played_s
    watch = PoolWatch(client, cluster.now_s)
    study = optuna.create_study(
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=work.seed),
        pruner=PRUNER,
    )
    trials = dict(submitted(client, work, study))
    pruned: dict[str, int] = {}
    views = [client.job(job_id) for job_id in trials]
    while time.monotonic() < until_s and not all(view.phase.is_end for view in views):
        watch.look()
        time.sleep(LOOK_EVERY_S)
        views = [client.job(job_id) for job_id in trials]
        for job_id in [view.id for view in views if not view.phase.is_end and view.id not in pruned]:
            if num_epochs := worse_after(client, job_id, trials[job_id]):
                client.cancel(job_id)
                pruned[job_id] = num_epochs
    watch.look()
    return SearchEnded(views=tuple(views), begun_s=cluster.now_s, seen=tuple(watch.seen), pruned=pruned)


def submitted(client: Client, work: SearchWork, study: optuna.Study) -> Iterator[tuple[str, optuna.Trial]]:
    """The id of each job, and its trial."""
    for number in range(1, work.num_trials + 1):
        trial = study.ask()
        lr = trial.suggest_float("lr", work.least_lr, work.most_lr, log=True)
        args = [*work.job["args"], "--lr", lr]
        fields = {**work.job, "name": f"lr-{number}", "args": args, "tags": [f"lr={lr:.6g}"]}
        yield client.submit(**fields), trial


def worse_after(client: Client, job_id: str, trial: optuna.Trial) -> int:
    """Epochs after which others had a better accuracy, so that the job is to end; 0: it is not."""
    found = client.metrics(job_id, names=["accuracy"]).series
    values = found[0].last if found else []
    for epoch, value in enumerate(values, 1):  # told again, a value is ignored
        trial.report(math.nan if value is None else value, epoch)
    return len(values) if values and trial.should_prune() else 0


def main() -> None:
    order = msgspec.json.decode(sys.stdin.read(), type=PlayOrder)
    work = order.work
    with connect() as client:
        say(search(client, order, work) if isinstance(work, SearchWork) else play(client, order, work))


if __name__ == "__main__":
    main()
