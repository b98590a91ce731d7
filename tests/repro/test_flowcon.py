"""FlowCon's evaluation: its schedules, and what is measured of jobs that shared a machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.repro.live_runs import run_of, submitted

from swell.model.errors import InvalidInput
from swell.model.job import Phase
from swell.model.node import Node
from swell_papers.experiment import Context, Study
from swell_papers.findings import Findings
from swell_papers.findings_store import read, write, write_page
from swell_papers.flowcon import (
    MODELS,
    NONE,
    PAPER,
    RANDOM_SCALE,
    WINDOW_S,
    drawn,
    fixed,
    flowcon,
)
from swell_papers.flowcon_measures import USABLE_SHARE, Course, SharedRun
from swell_papers.live_run import LiveJob, LiveRun, PlannedJob, Sample

NODE = Node(name="node0", kind="cpu", cores=1.0, devices=tuple(f"node0/{place}" for place in range(16)))
CONTEXT = Context(data=Path())
NUM_STEPS, SCALE = 1000, 100.0
FIXED, CPU = (cast(Study[SharedRun], one) for one in PAPER.experiments[:2])
FIT = "flowcon_fit"


def ended(part: PlannedJob, stretch: float = 1.0, loss_scale: float = 1.0, cpu_s: float = 5.0) -> LiveJob:
    """A job of `NUM_STEPS` steps in `10 * stretch` s whose loss falls exponentially."""
    job = submitted(msgspec.structs.replace(part, steps=NUM_STEPS))
    begun_s = job.view.submitted_s
    samples = [
        Sample(
            at_s=begun_s + 10.0 * stretch * done,
            steps=int(done * NUM_STEPS),
            loss=loss_scale * math.exp(-int(done * NUM_STEPS) / SCALE),
            cpu_s=cpu_s * done,
        )
        for done in np.linspace(0.0, 1.0, 101).tolist()
    ]
    view = msgspec.structs.replace(
        job.view, phase=Phase.SUCCEEDED, finished_s=begun_s + 10.0 * stretch, loss=samples[-1].loss
    )
    return msgspec.structs.replace(job, view=view, samples=tuple(samples))


def live(
    policy: str = "fifo", stretches: Sequence[float] = (1.0, 1.0, 1.0), control_s: float = 0.1
) -> LiveRun:
    jobs = [ended(part, one) for part, one in zip(fixed(CONTEXT, 0), stretches, strict=True)]
    return msgspec.structs.replace(run_of(policy, jobs, [NODE], 1), control_cpu_s=control_s)


def keep(folder: Path, name: str, run: LiveRun, label: str, repetition: int = 0) -> None:
    (folder / f"{name}-{label}-{repetition}.json".replace(" ", "-")).write_bytes(msgspec.json.encode(run))


def told(
    folder: Path,
    ours: Sequence[float],
    fit: Sequence[float] = (1.0, 1.0, 0.5),
    control_s: float = 0.1,
    repetitions: int = 1,
) -> Findings:
    """What is told of the fixed schedule, where jobs under both policies take so much of their time."""
    for repetition in range(repetitions):
        keep(folder, "fixed", live(), NONE.label, repetition)
        keep(folder, "fixed", live("flowcon", ours, control_s), flowcon(5.0, 20.0).label, repetition)
        keep(folder, "fixed", live(FIT, fit), FIT, repetition)
    return FIXED.run(Context(data=folder, played=folder, repetitions=repetitions))


# ---------------------------------------------------------------- schedules
@given(st.integers(1, 30), st.integers(0, 1000))
def test_jobs_are_drawn_within_the_window(num: int, seed: int) -> None:
    context = Context(data=Path(), seed=seed)
    schedule = drawn(num, context, 0)
    assert len(schedule) == num == len({job.name for job in schedule}) and schedule == drawn(num, context, 0)
    assert schedule[0].at_s == 0.0 and all(0.0 <= job.at_s <= WINDOW_S / RANDOM_SCALE for job in schedule)
    assert all(job.steps > 0 and job.at_s <= later.at_s for job, later in itertools.pairwise(schedule))
    counts = [sum(job.script == f"{model}.py" for job in schedule) for model in MODELS]
    assert max(counts) - min(counts) <= 1, "the models take turns"


def test_each_script_is_there() -> None:
    for job in drawn(len(MODELS), CONTEXT, 0):
        assert Path(job.fields(0.0)["script"]).exists()


def test_jobs_of_an_image_run_in_its_containers() -> None:
    jobs = fixed(Context(data=Path(), image="py:1"), 0)
    assert {job.fields(0.0)["image"] for job in jobs} == {"py:1"}
    assert all("image" not in job.fields(0.0) for job in fixed(CONTEXT, 0))


# ---------------------------------------------------------------- measures
def test_a_model_is_usable_after_most_of_its_drop() -> None:
    steps = Course.of(ended(fixed(CONTEXT, 0)[0])).usable_steps
    assert steps == pytest.approx(-SCALE * math.log(1.0 - USABLE_SHARE), abs=NUM_STEPS / 50)
    slow = SharedRun(live("flowcon", (2.0, 2.0, 2.0)), SharedRun(live()))
    assert slow.ratio(lambda one: one.mean_usable_s) == pytest.approx(2.0)


@given(st.floats(0.1, 10.0), st.floats(0.01, 100.0))
def test_progress_does_not_depend_on_time_or_scale(stretch: float, scale: float) -> None:
    job = ended(fixed(CONTEXT, 0)[0], stretch, scale)
    run = SharedRun(msgspec.structs.replace(live(), jobs=(job,)))
    edges_s = 10.0 * stretch * np.array([0.0, 0.05, 0.145, 0.5, 1.0])
    found = [span.done_share for span in run.spans(job, edges_s) if span]
    expected = 1.0 - np.exp(-np.array([0.05, 0.145, 0.5, 1.0]) * NUM_STEPS / SCALE)
    assert found == sorted(found) and found == pytest.approx(expected, abs=0.1)


def test_growth_efficiency_falls_as_the_loss_does() -> None:
    """Of an exponential at an even pace the drop in a span falls by the same factor from span to span."""
    run = SharedRun(live())
    edges_s = np.linspace(0.0, 20.0, 21)
    spans = run.spans(run.run.jobs[0], edges_s)
    growth = [span.growth for span in spans if span]
    factors = [later / sooner for sooner, later in itertools.pairwise(growth[1:8])]  # type: ignore[operator]
    assert factors == pytest.approx([math.exp(-NUM_STEPS / SCALE / 10.0)] * 6, rel=0.15)
    assert [span is None for span in spans] == [False] * 10 + [True] * 10, "it ended after half the time"
    assert all(span.cores == pytest.approx(0.5) for span in spans if span)


@given(st.lists(st.floats(0.1, 20.0), min_size=3, max_size=3))
def test_the_time_of_all_jobs_at_once_is_within_that_of_each(stretches: list[float]) -> None:
    run = SharedRun(live(stretches=stretches))
    assert 0.0 <= run.all_at_once_s <= min(run.completions_s.values())


def test_less_of_three_jobs_at_once_is_told() -> None:
    """The jobs begin 4 s apart."""
    assert SharedRun(live()).all_at_once_s == pytest.approx(2.0)
    assert SharedRun(live(stretches=(1.0, 1.0, 0.1))).all_at_once_s == pytest.approx(1.0)


@pytest.mark.parametrize("label", [NONE.label, FIT])
def test_a_job_that_failed_or_never_told_its_loss_is_named(tmp_path: Path, label: str) -> None:
    first, *others = live().jobs
    view = msgspec.structs.replace(first.view, phase=Phase.FAILED)
    for broken in (msgspec.structs.replace(first, view=view), msgspec.structs.replace(first, samples=())):
        told(tmp_path, (1.0, 1.0, 1.0))
        run = msgspec.structs.replace(live(), jobs=(broken, *others))
        keep(tmp_path, "fixed", run, label)
        with pytest.raises(InvalidInput, match=r"job 'vae-1' did not succeed .* or hardly told its loss"):
            FIXED.run(Context(data=tmp_path, played=tmp_path, repetitions=1))


def test_a_simulated_run_ends_when_the_real_one_did() -> None:
    """Jobs that take turns on one core, each of which would need a part of it alone."""
    cpu_s = (4.0, 3.0, 2.0)
    jobs, at_s = [], 0.0
    for part, own_s in zip(fixed(CONTEXT, 0), cpu_s, strict=True):
        jobs.append(ended(msgspec.structs.replace(part, at_s=at_s), own_s / 10.0, cpu_s=own_s))
        at_s += own_s
    found = SharedRun(msgspec.structs.replace(run_of("fifo", jobs, [NODE], 1))).simulated
    assert found.error_together == pytest.approx(0.0, abs=0.05)


# ---------------------------------------------------------------- findings
def test_a_late_job_in_half_the_time_is_told(tmp_path: Path) -> None:
    found = told(tmp_path, (1.0, 1.0, 0.5), repetitions=3)
    assert [text for text in found.missed if "simulation" not in text] == []
    ours = dict(
        zip([column.name for column in found.tables[0].columns], found.tables[0].rows[1], strict=True)
    )
    assert ours["mean completion, ratio"] == pytest.approx(25.0 / 30.0) and ours["worst job, ratio"] == 1.0
    assert ours["late job sooner, %"] == pytest.approx(50.0)
    assert "27 of 27 jobs ended with the very same loss" in found.notes[-1]


def test_what_the_paper_prints_stands_beside_ours() -> None:
    printed = {
        study.name: {claim.text: claim.figure for claim in study.claims if not claim.is_target}
        for study in (cast(Study[SharedRun], one) for one in PAPER.experiments)
    }
    assert printed["fig3"] == {"late job sooner, %: alpha 5 %, interval 30 s": 31.9}
    assert printed["fig5"]["late job sooner, %: alpha 15 %, interval 20 s"] == 19.8
    assert len(printed["fig4"]) == len(printed["fig5"]) == 5


def test_a_page_is_written_with_each_job_over_time(tmp_path: Path) -> None:
    write(told(tmp_path, (1.0, 1.0, 0.9)), tmp_path / "out")
    files = write_page(PAPER, read(PAPER, tmp_path / "out"), tmp_path / "docs")
    names = {file.name for file in files}
    assert {"flowcon.md", "fixed.png", "fixed-claims.csv", "fixed-time.csv"} <= names
    assert "* late job sooner, %: alpha 5 %" in files[0].read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [None, b"[", b"[{}]"])
def test_runs_that_cannot_be_read_are_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        for label in ("none", FIT, flowcon(5.0, 20.0).label.replace(" ", "-")):
            (tmp_path / f"fixed-{label}-0.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"fixed-.*\.json .* run it live"):
        FIXED.run(Context(data=Path(), played=tmp_path))
