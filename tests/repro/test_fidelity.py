"""Comparing a live run with its twin; the live ones here were simulated themselves, but for the last."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from tests.store.views import job_view

from swell.api.client import Client
from swell.api.submission import parse
from swell.cli import main
from swell.model.event import NodeJoined, Opened
from swell.model.job import Profile
from swell.model.node import Node
from swell.model.view import JobView, Story
from swell.scheduler import new_core
from swell.sim.change_cost import AsMeasured
from swell.sim.event_log import EventLog
from swell.sim.gangs import GangTimings
from swell_papers import live_run as live_run_module
from swell_papers.fidelity import BAR_SHARE, OPEN_BATCH, WORKLOAD, workload_of
from swell_papers.fidelity_findings import findings_of
from swell_papers.live_run import LiveJob, LiveRun, PlannedJob, Player
from swell_papers.simulated_rerun import _line, measured_cost, simulate

BEGUN_S = 1_800_000_000.0
NODE = Node(name="node0", kind="paced@64", devices=tuple(f"node0/{place}" for place in range(4)))
PROFILE = Profile(
    device_kind=NODE.kind,
    compute_s={64: 1.0, 32: 0.5, 16: 0.25},
    allreduce_s={2: 0.002, 4: 0.004},
    grad_bytes=1000,
    state_bytes=3000,
    samples_per_epoch=1437,
    start_s=0.8,
)
COST = AsMeasured(pause_s=0.04, order_s=0.2, crowding_share=0.4)
TIMINGS = GangTimings(report_s=1.0, grain_steps=1.0)


#: Of jobs whose batch is open: a step has a part that the batch does not change.
OPEN_PROFILE = msgspec.structs.replace(
    PROFILE, compute_s={size: 0.008 + size / 64 for size in (1, 4, 16, 64, 256)}
)


@cache
def live_run(policy: str, parts: tuple[PlannedJob, ...] | None = None) -> LiveRun:
    """A run that went exactly as it is simulated."""
    parts = workload_of(policy) if parts is None else parts
    core = new_core(policy)
    core.handle([Opened(at_s=BEGUN_S, policy=policy), NodeJoined(at_s=BEGUN_S, node=NODE)])
    run = LiveRun(
        policy=policy,
        begun_s=BEGUN_S,
        head=core.save().decode(),
        devices="paced:1x4@64",
        nodes=(NODE,),
        trials=(),
        jobs=tuple(_submitted(part) for part in parts),
        num_cores=2,
        load_before=0.1,
        load_after=0.5,
    )
    diary = EventLog()
    views = simulate(run, COST, TIMINGS, diary.listen)
    jobs = []
    for job in run.jobs:
        stories = tuple(story for job_id, story in diary.stories if job_id == job.view.id)
        jobs.append(msgspec.structs.replace(job, view=views[job.view.id], stories=stories))
    return msgspec.structs.replace(run, jobs=tuple(jobs))


def _submitted(part: PlannedJob) -> LiveJob:
    at_s = BEGUN_S + 1.0 + part.at_s
    spec = parse(part.fields(at_s)).to_spec(at_s)
    view = job_view(id=f"{part.name}-1", name=part.name, submitted_s=at_s)
    return LiveJob(spec=spec, profile=OPEN_PROFILE if part.batch else PROFILE, view=view, stories=())


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["elasticflow", "srtf", "fifo", "saxena", "hu", "pollux"])
def test_a_run_that_went_as_simulated_has_no_error(policy: str) -> None:
    run = live_run(policy)
    assert measured_cost(run).crowding_share == pytest.approx(COST.crowding_share, abs=0.02)
    assert measured_cost(run).order_s == pytest.approx(COST.order_s, abs=0.05)
    found = findings_of([run])
    assert found.missed == ()
    (row,) = found.tables[0].rows
    assert row[:5] == (policy, 12, row[2], row[2], "yes") and row[5] < 1.0  # type: ignore[operator]


def test_policies_that_choose_batches_get_jobs_with_a_range_and_the_same_samples() -> None:
    assert workload_of("hu") == workload_of("elasticflow") == WORKLOAD
    opened = workload_of("saxena")
    assert [job.steps * job.global_batch for job in opened] == [
        job.steps * job.global_batch for job in WORKLOAD
    ]
    batches = {(job.view.batch, job.spec.max_batch) for job in live_run("saxena").jobs}
    assert {most for _, most in batches} == {256} and {batch for batch, _ in batches} > {OPEN_BATCH}


def test_noise_that_live_gangs_measured_is_that_of_their_twins() -> None:
    """They report it, and the policy goes by it, as in the live run."""
    run = live_run("pollux")
    quiet = [
        msgspec.structs.replace(job, view=msgspec.structs.replace(job.view, noise_scale=1.0))
        for job in run.jobs
    ]
    views = simulate(run, COST, TIMINGS)
    with_noise = simulate(msgspec.structs.replace(run, jobs=tuple(quiet)), COST, TIMINGS)
    assert all(view.noise_scale is None for view in views.values())
    told = [view for view in with_noise.values() if view.noise_scale == 1.0]
    assert told and all(view.noise_scale in (None, 1.0) for view in with_noise.values())
    assert sum(view.batch for view in with_noise.values()) < sum(view.batch for view in views.values())


class ProfilingClient:
    """Measures a job when it is looked at for the third time."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []
        self._num_looks = 0

    def cluster(self) -> SimpleNamespace:
        return SimpleNamespace(now_s=BEGUN_S)

    def submit(self, **fields: object) -> str:
        self.told.append(("submit", f"{fields['name']} {fields['class']} {'deadline' in fields}"))
        return str(fields["name"])

    def job(self, job_id: str) -> JobView:
        return job_view(id=job_id)

    def stories(self, job_id: str) -> Sequence[Story]:
        self._num_looks += 1
        return [] if self._num_looks % 3 else [Story(at_s=BEGUN_S, code="profiled", text="")]

    def cancel(self, job_id: str) -> None:
        self.told.append(("cancel", job_id))

    def wait(self, job_id: str) -> None:
        self.told.append(("wait", job_id))


def test_the_longest_job_of_each_script_is_measured_before_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_run_module, "LOOK_EVERY_S", 0.0)
    client = ProfilingClient()
    Player(cast(Client, client)).profile(WORKLOAD)
    names = {"transformer-h", "vae-k", "cnn-l", "gru-c"}
    assert {told for call, told in client.told if call == "submit"} == {
        f"{name} best_effort False" for name in names
    }
    assert [call for call, _ in client.told] == ["submit", "cancel", "wait"] * len(names)


def test_costs_are_fitted_without_going_below_nothing() -> None:
    assert _line([0.0, 1.0, 3.0], [0.2, 0.5, 1.1]) == pytest.approx((0.2, 0.3))
    assert _line([1.0, 2.0], [1.0, 0.0]) == (0.5, 0.0)
    intercept, slope = _line([1.0, 2.0], [0.0, 1.0])
    assert intercept == 0.0
    assert slope == pytest.approx(0.4)
    assert _line([], []) == (0.0, 0.0)


def test_elasticflow_refuses_what_is_in_vain() -> None:
    refused = [job.view.name for job in live_run("elasticflow").jobs if job.view.phase == "rejected"]
    assert "cnn-e" in refused and len(refused) < 4


@pytest.mark.slow
def test_a_run_that_went_otherwise_is_told() -> None:
    run = live_run("fifo")
    slow = [
        msgspec.structs.replace(
            job,
            view=msgspec.structs.replace(
                job.view,
                finished_s=(job.view.finished_s or 0.0) * (1.0 + 1e-8),  # 18 s
            ),
        )
        for job in run.jobs
    ]
    (missed,) = findings_of([msgspec.structs.replace(run, jobs=tuple(slow))]).missed
    assert missed.startswith("fifo: mean error ") and missed.endswith(f"more than {BAR_SHARE:.0%}")


@pytest.mark.slow
def test_a_record_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "live-edf.json").write_bytes(msgspec.json.encode(live_run("edf")))
    out = tmp_path / "out"
    status = main.run(["repro", "fidelity", "--live", str(tmp_path), "--policy", "edf", "--out", str(out)])
    printed = capsys.readouterr()
    assert status == 0, printed
    assert "12 real PyTorch jobs on paced:1x4@64, 2 cores" in printed.out
    assert {file.name for file in out.iterdir()} >= {"fidelity.csv", "fidelity-jobs.csv", "fidelity.png"}
    status = main.run(["repro", "fidelity", "--live", str(out), "--policy", "fifo", "--out", str(out)])
    assert status == 2 and "live-fifo.json cannot be read" in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_live_and_simulated_agree(tmp_path: Path) -> None:
    """Wants a machine that does nothing else."""
    assert main.run(["repro", "fidelity", "--policy", "fifo", "--out", str(tmp_path)]) == 0
