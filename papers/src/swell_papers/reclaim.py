"""Real jobs on nodes that are killed without notice, as a log of idle nodes says, and their simulation."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from swell.api.client import Client
from swell.cli.tokens import ensure_first_token
from swell.model.errors import InvalidInput
from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell_papers.experiment import Context, Measure, Results
from swell_papers.fidelity import (
    ERROR,
    FAILED,
    Rerun,
    conditions,
    measured_cost,
    measured_jobs,
    measured_timings,
    rerun,
    rerun_paper,
)
from swell_papers.live_run import LOOK_EVERY_S, LiveRun, NodeChange, PlannedJob, Player, played

#: For nodes to join, and to be given up.
WITHIN_S = 120.0


class LentInterval(NamedTuple):
    """A node is lent from `start_s` until it is reclaimed. Seconds since the beginning."""

    node: str
    start_s: float
    end_s: float


def namespace_words() -> list[str]:
    """The command that runs another one in a PID namespace. Raises InvalidInput: it cannot be had here."""
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    words += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if shutil.which("unshare") is None:
        raise InvalidInput("nodes that can be killed need the program `unshare` (util-linux); install it")
    tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
    if tried.returncode:
        raise InvalidInput(f"nodes that can be killed need PID namespaces: {tried.stderr.strip()}")
    return words


@dataclass(slots=True)
class LentNodes:
    """Starts nodes and kills them. All are gone when its context ends.

    Args:
        devices: of each node.
        folder: for their states.
    """

    client: Client
    devices: str
    folder: Path
    words: Sequence[str] = field(default_factory=namespace_words)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for name in list(self._processes):
            self.kill(name)

    def join(self, name: str) -> None:
        """Start the node, with an empty folder. Returns before it has joined."""
        state = tempfile.mkdtemp(prefix=name, dir=self.folder)
        address, token = ensure_first_token(self.client.folder)
        node = (*("--join", address, "--token-file", token), *("--name", name), *("--state", state))
        command = (sys.executable, "-P", "-m", "swell.cli.main", "node", *node)
        self._processes[name] = subprocess.Popen(
            [*self.words, *map(str, command), "--devices", self.devices, "--borrowed"],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, name: str) -> None:
        """SIGKILL process 1 of the namespace; returns when the kernel has ended its last process."""
        process = self._processes.pop(name)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in children or [str(process.pid)]:
            os.kill(int(pid), signal.SIGKILL)
        process.wait()

    def await_names(self, names: set[str]) -> None:
        """Wait until these nodes are those of the platform. Raises InvalidInput: they are not in time."""
        give_up_s = time.monotonic() + WITHIN_S
        while (there := {node.name for node in self.client.cluster().nodes}) != names:
            if time.monotonic() > give_up_s:
                raise InvalidInput(
                    f"nodes are there: {', '.join(sorted(there)) or 'none'}, and not "
                    f"{', '.join(sorted(names))}; see the log in {self.client.folder.path}"
                )
            time.sleep(LOOK_EVERY_S)


def owner_of(
    lent: LentNodes, intervals: Sequence[LentInterval], changes: list[NodeChange]
) -> Callable[[float], None]:
    """Return who lends nodes and kills them when told how much time has passed, and notes the killed ones."""
    due = [(one.end_s, one.node, False) for one in intervals]
    due += [(one.start_s, one.node, True) for one in intervals if one.start_s]
    coming = deque(sorted(due))

    def look(passed_s: float) -> None:
        while coming and coming[0][0] <= passed_s:
            _, name, is_lent = coming.popleft()
            if is_lent:
                lent.join(name)
            else:
                changes.append(NodeChange(node=name, at_s=time.time(), what="killed"))
                lent.kill(name)

    return look


# What is played

#: A step of 64 samples takes one of these a second.
DEVICES = "paced:1@64"
#: It charges starts. As printed, equal jobs take turns wherever one seems a percent faster, as chance has it.
POLICY = "bftrainer"
#: A host that is silent is given up after seven seconds. A job that has lost all its workers goes back five.
#: Several nodes import torch at the same time on the cores of one machine.
SETTINGS: dict[str, float] = {
    "lease_s": 5.0,
    "lease_margin_s": 2.0,
    "checkpoint_interval_s": 5.0,
    "ready_s": 300.0,
    f"{POLICY}.corrected": 1.0,
    f"{POLICY}.t_fwd_s": 15.0,
    f"{POLICY}.max_trainers": 4.0,
}
PLAYED_S = 360.0
#: Idle times in four hours of Summit's log, from 160,000 s on, 40 times as fast: of the nodes that come and
#: go, and never too soon for a process to follow, those that are lent longest; of a block that comes and goes
#: together one.
INTERVALS = (
    LentInterval("e37n10", 0.0, 180.2),
    LentInterval("e37n10", 246.2, PLAYED_S),
    LentInterval("e37n09", 0.0, 146.8),
    LentInterval("e37n09", 214.2, PLAYED_S),
    LentInterval("h19n18", 0.0, 89.4),
    LentInterval("h19n18", 134.2, 155.7),
    LentInterval("h36n16", 198.9, 220.1),
    LentInterval("h36n16", 250.1, 298.1),
    LentInterval("h34n06", 98.5, 155.7),
    LentInterval("b19n06", 94.0, 134.4),
)
#: 8 steps are an epoch of the script. All jobs are as fast on a node, so for most workloads chance decides
#: who has which: of some hundred drawn at random this is one whose outcome hangs little on it, by simulation.
WORKLOAD = tuple(
    PlannedJob(at_s=at_s, name=name, script="visits.py", steps=steps, workers=workers)
    for at_s, name, steps, workers in (
        (0, "a", 104, "1:2"),
        (0.5, "b", 56, "1"),
        (51, "c", 40, "2:3"),
        (108, "d", 24, "1:2"),
        (130, "e", 24, "2"),
        (155, "f", 56, "2"),
        (175, "g", 152, "1"),
        (244, "h", 128, "2:3"),
    )
)


def play(client: Client) -> LiveRun:
    """Play the workload on nodes that are lent and killed by the intervals. Raises InvalidInput."""
    names = {one.node for one in INTERVALS}
    first = {one.node for one in INTERVALS if not one.start_s}
    with (
        tempfile.TemporaryDirectory(prefix="swell-lent-") as folder,
        LentNodes(client, DEVICES, Path(folder)) as lent,
    ):
        for name in names:
            lent.join(name)
        lent.await_names(names)
        player = Player(client, DEVICES, SETTINGS)
        player.look = owner_of(lent, INTERVALS, player.changes)
        player.measure(WORKLOAD)
        for name in names - first:
            lent.kill(name)
        lent.await_names(first)
        return player.play(WORKLOAD, PLAYED_S)


def compare(run: LiveRun) -> Rerun:
    """Simulate a run: nodes join and are killed when they did, and speeds are those of trial runs.

    What changes cost, and how soon the loss of a node is noticed, are the run's own means.
    """
    timings = replace(
        measured_timings(run),
        notice_s=notice_s(run),
        checkpoint_interval_s=run.settings.get("checkpoint_interval_s"),
    )
    return rerun(run, measured_jobs(run), measured_cost(run), timings, node_changes(run))


def node_changes(run: LiveRun) -> list[AnyEvent]:
    """When nodes came and went."""
    known = {node.name: node for node in run.nodes}
    return [
        NodeJoined(at_s=one.at_s, node=known[one.node])
        if one.what == "joined"
        else NodeLost(at_s=one.at_s, name=one.node)
        for one in run.changes
        if one.what != "lost"
    ]


def notice_s(run: LiveRun) -> float:
    """Mean time from the reclaim of a node until the head hears that it is lost: its lease ends."""
    killed_s, delays_s = dict[str, float](), list[float]()
    for one in sorted(run.changes, key=lambda one: one.at_s):
        if one.what == "killed":
            killed_s[one.node] = one.at_s
        elif one.what == "lost" and one.node in killed_s:
            delays_s.append(one.at_s - killed_s.pop(one.node))
    return float(np.mean(delays_s)) if delays_s else 0.0


def _played(context: Context) -> Rerun:
    options = ("--devices", "none", "--listen", "127.0.0.1:0")
    return compare(played(context, "reclaim-run", play, POLICY, SETTINGS, *options))


def _truth(context: Context, found: Results[Rerun]) -> Iterator[str]:
    for one in found.values():
        settings = ", ".join(f"{name}={value:g}" for name, value in one.run.settings.items())
        yield f"{conditions(one.run)}; {one.run.policy}; {settings}"
        num_killed = sum(change.what == "killed" for change in one.run.changes)
        yield f"{num_killed} nodes killed; one is given up {notice_s(one.run):.1f} s later on average"


def _counted(metric: str) -> Callable[[Rerun], float]:
    """Samples, up to the last epoch that each job has ended."""
    return lambda one: sum(job.view.metrics.get(metric, 0.0) for job in one.run.jobs)


PAPER = rerun_paper(
    "reclaim",
    "Real jobs on nodes that are killed without notice, and the same intervals simulated",
    _truth,
    lambda context: {(POLICY,): partial(_played, context)},
    {
        ERROR: 5.0,
        Measure[Rerun]("samples lost", _counted("samples_lost"), 0): 0.0,
        Measure[Rerun]("samples repeated", _counted("samples_repeated"), 0): 0.0,
        FAILED: 0.0,
    },
)
