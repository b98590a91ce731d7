"""Live runs on nodes that are reclaimed: who kills, and the simulation beside them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from tests.repro.live_runs import BEGUN_S, as_simulated, run_of, submitted

from swell.api.client import Client
from swell.cli import main
from swell.model.errors import InvalidInput
from swell.model.node import Node
from swell_papers import reclaim
from swell_papers.experiment import Context
from swell_papers.live_run import LiveRun, NodeChange, PlannedJob
from swell_papers.reclaim import (
    INTERVALS,
    PAPER,
    POLICY,
    SETTINGS,
    WORKLOAD,
    LentInterval,
    LentNodes,
    compare,
    namespace_words,
    node_changes,
    notice_s,
    owner_of,
)

JOIN_S, NOTICE_S = 4.0, 6.5


def live_run(parts: tuple[PlannedJob, ...]) -> LiveRun:
    """A run that went exactly as it is simulated."""
    names = sorted({one.node for one in INTERVALS}, key=lambda name: (not is_first(name), name))
    nodes = [Node(name=name, devices=(f"{name}/0",), kind="paced@64", is_borrowed=True) for name in names]
    jobs = [submitted(part) for part in parts]
    run = run_of(POLICY, jobs, nodes, sum(map(is_first, names)), SETTINGS)
    joined = [(one.start_s + JOIN_S, one.node, "joined") for one in INTERVALS if one.start_s]
    killed = [(one.end_s, one.node, "killed") for one in INTERVALS]
    lost = [(one.end_s + NOTICE_S, one.node, "lost") for one in INTERVALS]
    changes = [
        NodeChange(node=node, at_s=BEGUN_S + at_s, what=what)  # type: ignore[arg-type]
        for at_s, node, what in sorted(joined + killed + lost)
    ]
    run = msgspec.structs.replace(run, changes=tuple(changes))
    return as_simulated(run, node_changes(run), notice_s=NOTICE_S, checkpoint_interval_s=5.0)


def is_first(name: str) -> bool:
    return any(one.node == name and not one.start_s for one in INTERVALS)


@pytest.mark.slow
def test_a_run_that_went_as_simulated_has_hardly_an_error(tmp_path: Path) -> None:
    """Its record can be read again."""
    run = live_run(WORKLOAD)
    assert notice_s(run) == pytest.approx(NOTICE_S)
    assert compare(run).mean_error < 0.02
    (tmp_path / "reclaim-run.json").write_bytes(msgspec.json.encode(run))
    found = PAPER.experiments[0].run(Context(data=tmp_path, played=tmp_path))
    assert found.missed == ()


def test_what_was_lost_or_repeated_is_missed(tmp_path: Path) -> None:
    run = live_run(WORKLOAD[:2])
    first, *others = run.jobs
    view = msgspec.structs.replace(first.view, metrics={"samples_lost": 3.0, "samples_repeated": 0.0})
    run = msgspec.structs.replace(run, jobs=(msgspec.structs.replace(first, view=view), *others))
    (tmp_path / "reclaim-run.json").write_bytes(msgspec.json.encode(run))
    found = PAPER.experiments[0].run(Context(data=tmp_path, played=tmp_path))
    assert "samples lost: 3.000; to reach: <= 0.000" in found.missed


def test_a_node_is_killed_with_all_its_processes_when_its_interval_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that is started as a node leaves a child, which does not hear of its end."""
    try:
        words = namespace_words()
    except InvalidInput as error:
        pytest.skip(str(error))
    mark = f"100{time.monotonic_ns()}"
    script = f"sleep {mark} & exec sleep {mark}"
    monkeypatch.setattr(reclaim, "ensure_first_token", lambda folder: ("127.0.0.1:1", "token"))
    client = cast(Client, SimpleNamespace(folder=tmp_path))
    with LentNodes(client, "paced:1@64", tmp_path, [*words, "sh", "-c", script]) as lent:
        changes: list[NodeChange] = []
        look = owner_of(lent, (LentInterval("a", 0.0, 0.3), LentInterval("b", 0.4, 9.0)), changes)
        lent.join("a")
        while (found := _running(mark)) != 2:
            assert found < 2
            time.sleep(0.01)
        look(0.35)
        assert [(one.node, one.what) for one in changes] == [("a", "killed")]
        assert _running(mark) == 0
        look(0.4)
        while (found := _running(mark)) != 2:  # of the other one, which is lent then
            assert found < 2
            time.sleep(0.01)
    assert _running(mark) == 0


def _running(mark: str) -> int:
    """Processes of `sleep` with this argument."""
    done = subprocess.run(["pgrep", "-fx", f"sleep {mark}"], capture_output=True, text=True, check=False)
    return len(done.stdout.split())


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_jobs_go_on_when_their_nodes_are_killed(tmp_path: Path) -> None:
    """Wants a machine that does nothing else."""
    assert main.run(["repro", "reclaim", "--out", str(tmp_path)]) == 0
