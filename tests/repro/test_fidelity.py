"""Comparing a live run with its twin; the live ones here were simulated themselves, but for the last."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import pytest
from tests.repro.live_runs import COST, as_simulated, run_of, submitted

from swell.cli import main
from swell.model.node import Node
from swell_papers.experiment import Context
from swell_papers.fidelity import OPEN_BATCH, PAPER, WORKLOAD, compare, measured_cost, workload_of
from swell_papers.findings import Findings
from swell_papers.live_run import LiveRun

NODE = Node(name="node0", kind="paced@64", devices=tuple(f"node0/{place}" for place in range(4)))


@cache
def live_run(policy: str) -> LiveRun:
    """A run that went exactly as it is simulated."""
    return as_simulated(run_of(policy, [submitted(part) for part in workload_of(policy)], [NODE], 1))


def told(run: LiveRun, folder: Path) -> Findings:
    """What is told of a run that was kept."""
    (folder / f"live-{run.policy}.json").write_bytes(msgspec.json.encode(run))
    context = Context(data=folder, played=folder, policies=frozenset({run.policy}))
    return PAPER.experiments[0].run(context)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["elasticflow", "srtf", "fifo", "saxena", "hu", "pollux"])
def test_a_run_that_went_as_simulated_has_no_error(policy: str, tmp_path: Path) -> None:
    run = live_run(policy)
    assert measured_cost(run).crowding_share == pytest.approx(COST.crowding_share, abs=0.02)
    assert measured_cost(run).order_s == pytest.approx(COST.order_s, abs=0.05)
    assert compare(run).mean_error < 0.01
    assert told(run, tmp_path).missed == ()


def test_policies_that_choose_batches_get_jobs_with_a_range_and_the_same_samples() -> None:
    assert workload_of("hu") == workload_of("elasticflow") == WORKLOAD
    opened = workload_of("saxena")
    assert [job.steps * job.global_batch for job in opened] == [
        job.steps * job.global_batch for job in WORKLOAD
    ]
    batches = {(job.view.batch, job.spec.max_batch) for job in live_run("saxena").jobs}
    assert {most for _, most in batches} == {256} and {batch for batch, _ in batches} > {OPEN_BATCH}


@pytest.mark.slow
def test_a_run_that_went_otherwise_is_told(tmp_path: Path) -> None:
    run = live_run("fifo")
    slow = [
        msgspec.structs.replace(
            job, view=msgspec.structs.replace(job.view, finished_s=(job.view.finished_s or 0.0) + 18.0)
        )
        for job in run.jobs
    ]
    (missed,) = told(msgspec.structs.replace(run, jobs=tuple(slow)), tmp_path).missed
    assert missed.startswith("mean error of completion times, %: ") and missed.endswith("to reach: <= 3.000")


@pytest.mark.slow
def test_a_record_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "live-edf.json").write_bytes(msgspec.json.encode(live_run("edf")))
    out = tmp_path / "out"
    status = main.run(["repro", "fidelity", "--live", str(tmp_path), "--policy", "edf", "--out", str(out)])
    printed = capsys.readouterr()
    assert status == 0, printed
    assert "12 real PyTorch jobs on paced:1x4@64, 2 cores" in printed.out
    assert {file.name for file in out.iterdir()} >= {"fidelity.csv", "fidelity-jobs.csv"}
    status = main.run(["repro", "fidelity", "--live", str(out), "--policy", "fifo", "--out", str(out)])
    assert status == 2 and "live-fifo.json cannot be read" in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_live_and_simulated_agree(tmp_path: Path) -> None:
    """Wants a machine that does nothing else."""
    assert main.run(["repro", "fidelity", "--policy", "fifo", "--out", str(tmp_path)]) == 0
