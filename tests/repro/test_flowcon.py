"""FlowCon's evaluation: its schedules, and what is measured of jobs that shared a machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.container_engines import fake_docker

from swell.api.client import Client
from swell.model.errors import InvalidInput
from swell_papers import colocated_experiment
from swell_papers.colocated_experiment import ColocatedExperiment
from swell_papers.colocated_findings import findings_of
from swell_papers.colocated_growth import NUM_SPANS, PROGRESS_AT, growth_over_time, training_progress
from swell_papers.colocated_measures import (
    USABLE_SHARE,
    are_losses_equal,
    learning_of,
    losses_of,
    measures_of,
    time_of_steps,
)
from swell_papers.colocated_overlap import at_once_s, overlap_of_jobs
from swell_papers.colocated_run import (
    REPORT_S,
    ColocatedJobRecord,
    ColocatedRun,
    Contender,
    LearningSample,
    engine_with,
)
from swell_papers.experiment import Context, Up
from swell_papers.findings import Part, Table
from swell_papers.findings_store import read, write, write_page
from swell_papers.flowcon import PAPER
from swell_papers.flowcon_schedule import (
    FIXED,
    MODELS,
    RANDOM_SCALE,
    WINDOW_S,
    ColocatedJob,
    Schedule,
    drawn,
    shortened,
)

NUM_STEPS, SCALE = 1000, 100.0
EXPERIMENT = ColocatedExperiment(
    name="fixed",
    title="three jobs",
    draw=lambda seed: FIXED,
    contenders=(Contender("none", "fifo"), Contender("flowcon_fit", "flowcon_fit")),
    late_job=FIXED[-1].name,
    is_bar=True,
)


def record(job: ColocatedJob, stretch: float = 1.0, loss_scale: float = 1.0) -> ColocatedJobRecord:
    """A job of `NUM_STEPS` steps in `10 * stretch` s whose loss falls exponentially."""
    at = np.linspace(0.0, 1.0, 101)
    samples = [
        LearningSample(
            at_s=job.at_s + 10.0 * stretch * float(part),
            steps=int(part * NUM_STEPS),
            loss=loss_scale * math.exp(-int(part * NUM_STEPS) / SCALE),
            cpu_s=5.0 * float(part),
            share=None,
        )
        for part in at
    ]
    end_s = job.at_s + 10.0 * stretch
    return ColocatedJobRecord(
        job=job, submitted_s=job.at_s, finished_s=end_s, final_loss=samples[-1].loss, samples=tuple(samples)
    )


def run_of(
    label: str, stretches: Sequence[float] = (1.0, 1.0, 1.0), repetition: int = 0, control_s: float = 0.1
) -> ColocatedRun:
    jobs = tuple(record(job, stretch) for job, stretch in zip(FIXED, stretches, strict=True))
    return ColocatedRun(
        contender=Contender(label, label),
        repetition=repetition,
        jobs=jobs,
        control_cpu_s=control_s,
        load_before=0.1,
        mechanism="weights of cgroup v1",
    )


# ---------------------------------------------------------------- schedules
@given(st.integers(1, 30), st.integers(0, 1000))
def test_jobs_are_drawn_within_the_window(num: int, seed: int) -> None:
    schedule = drawn(num, seed)
    assert len(schedule) == num == len({job.name for job in schedule}) and schedule == drawn(num, seed)
    assert schedule[0].at_s == 0.0 and all(0.0 <= job.at_s <= WINDOW_S / RANDOM_SCALE for job in schedule)
    assert all(job.steps > 0 and job.at_s <= later.at_s for job, later in itertools.pairwise(schedule))
    counts = [sum(job.model == model for job in schedule) for model in MODELS]
    assert max(counts) - min(counts) <= 1, "the models take turns"


def test_each_script_is_there() -> None:
    for job in drawn(len(MODELS), seed=0):
        assert Path(job.fields()["script"]).exists()


# ---------------------------------------------------------------- measures
def test_a_model_is_usable_after_most_of_its_drop() -> None:
    learning = learning_of(losses_of([run_of("none"), run_of("none", (2.0, 1.0, 1.0))], FIXED[0].name))
    assert learning.usable_steps == pytest.approx(-SCALE * math.log(1.0 - USABLE_SHARE), abs=NUM_STEPS / 50)


@given(st.floats(0.01, 100.0))
def test_the_scale_of_a_loss_does_not_matter(scale: float) -> None:
    losses = losses_of([run_of("none")], FIXED[0].name)
    scaled = learning_of({step: scale * loss for step, loss in losses.items()})
    assert scaled.usable_steps == learning_of(losses).usable_steps


@given(st.floats(0.1, 10.0), st.floats(0.0, NUM_STEPS))
def test_time_of_steps_is_between_reports(stretch: float, steps: float) -> None:
    found = time_of_steps(record(FIXED[1], stretch), steps)
    assert found == pytest.approx(10.0 * stretch * steps / NUM_STEPS, abs=1e-6)


def test_steps_that_were_never_made_have_no_time() -> None:
    assert time_of_steps(record(FIXED[1]), NUM_STEPS + 1.0) is None


def test_a_job_that_failed_is_named() -> None:
    run = run_of("none")
    failed = ColocatedJobRecord(
        job=FIXED[0], submitted_s=0.0, finished_s=None, final_loss=None, samples=run.jobs[0].samples
    )
    broken = ColocatedRun(
        **{name: getattr(run, name) for name in run.__struct_fields__} | {"jobs": (failed,)}
    )
    with pytest.raises(InvalidInput, match="job 'vae-1' did not succeed under none"):
        measures_of([broken])


@pytest.mark.slow
@pytest.mark.parametrize("label", ["none", "flowcon_fit"])
def test_an_experiment_in_which_a_job_failed_says_which(label: str) -> None:
    runs = [_of(contender, 0) for contender in EXPERIMENT.contenders]
    at = next(at for at, run in enumerate(runs) if run.label == label)
    failed = msgspec.structs.replace(runs[at].jobs[0], finished_s=None, samples=())
    runs[at] = msgspec.structs.replace(runs[at], jobs=(failed, *runs[at].jobs[1:]))
    with pytest.raises(InvalidInput, match=f"job 'vae-1' did not succeed under {label}"):
        EXPERIMENT.findings(runs)


def test_an_experiment_in_which_a_job_never_told_its_loss_says_which() -> None:
    runs = [_of(contender, 0) for contender in EXPERIMENT.contenders]
    for at, run in enumerate(runs):
        silent = msgspec.structs.replace(run.jobs[0], samples=())
        runs[at] = msgspec.structs.replace(run, jobs=(silent, *run.jobs[1:]))
    with pytest.raises(InvalidInput, match=r"job 'vae-1' .* or never told its loss"):
        EXPERIMENT.findings(runs)


def test_losses_that_differ_are_seen() -> None:
    assert all(are_losses_equal([run_of("none"), run_of("flowcon", (2.0, 1.0, 1.0))]).values())
    other = run_of("flowcon")
    jobs = (record(FIXED[0], loss_scale=1.0 + 1e-12), *other.jobs[1:])
    changed = ColocatedRun(
        **{name: getattr(other, name) for name in other.__struct_fields__} | {"jobs": jobs}
    )
    assert are_losses_equal([run_of("none"), changed])[FIXED[0].name] is False


# ---------------------------------------------------------------- findings
def test_a_late_job_in_half_the_time_is_told() -> None:
    runs = [run_of("none", repetition=at) for at in range(3)]
    runs += [run_of("flowcon_fit", (1.0, 1.0, 0.5), repetition=at) for at in range(3)]
    found = findings_of(EXPERIMENT, runs)
    assert found.missed == ()
    late = next(table for table in found.tables if table.name == "fixed-late")
    assert late.rows[0][0] == "flowcon_fit"
    assert list(late.rows[0][1:]) == pytest.approx([0.5, 0.0, 0.5, 4.0 / 18.0])
    assert "9 of 9 jobs ended with the very same loss" in found.notes[-1]
    table = found.tables[0]
    ours = dict(zip([column.name for column in table.columns], table.rows[1], strict=True))
    assert ours["ratio"] == pytest.approx(25.0 / 30.0) and ours["worst job"] == 1.0


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (run_of("flowcon_fit"), "the late job under flowcon_fit takes 1.000 of its time"),
        (run_of("flowcon_fit", (2.0, 1.0, 0.5)), "the makespan under flowcon_fit is"),
        (run_of("flowcon_fit", (1.0, 1.0, 0.5), control_s=2.0), "flowcon_fit costs"),
    ],
)
def test_what_was_missed_is_told(run: ColocatedRun, message: str) -> None:
    found = findings_of(EXPERIMENT, [run_of("none"), run])
    assert any(message in one for one in found.missed)


def test_with_many_jobs_the_time_to_a_usable_model_counts() -> None:
    many = replace(EXPERIMENT, name="random10", late_job=None)
    found = findings_of(many, [run_of("none"), run_of("flowcon_fit", (1.4, 1.0, 1.0))])
    assert any("takes 1.40 of a job's time" in one for one in found.missed)
    assert any("time to a usable model to" in one for one in found.missed)


def test_what_the_paper_prints_stands_beside_ours() -> None:
    printed = replace(EXPERIMENT, late_reductions={"flowcon_fit": 0.319})
    found = findings_of(printed, [run_of("none"), run_of("flowcon_fit", (1.0, 1.0, 0.5))])
    late = next(table for table in found.tables if table.name == "fixed-late")
    assert late.columns[-1].name == "paper" and late.rows[0][-1] == 0.319


def test_figures_3_to_6_have_every_setting_of_the_paper() -> None:
    settings = {
        experiment.name: [dict(contender.parameters) for contender in experiment.contenders[1:]]
        for experiment in PAPER.experiments
        if isinstance(experiment, ColocatedExperiment)
    }
    intervals_s, alphas = [2.0, 3.0, 4.0, 5.0, 6.0], [0.01, 0.03, 0.05, 0.1, 0.15]
    for figure, alpha in (("fig3", 0.05), ("fig4", 0.1)):
        assert settings[figure] == [{"alpha": alpha, "interval_s": at_s} for at_s in intervals_s]
    for figure, at_s in (("fig5", 2.0), ("fig6", 3.0)):
        assert settings[figure] == [{"alpha": alpha, "interval_s": at_s} for alpha in alphas]
    assert [(one["alpha"], one["interval_s"]) for one in settings["random5"][:4]] == [
        (0.03, 1.5), (0.03, 3.0), (0.05, 1.5), (0.05, 3.0)
    ]  # fmt: skip


def test_containers_are_compared_with_containers() -> None:
    both = EXPERIMENT.with_containers("py:1")
    labels = ["none", "flowcon_fit", "none, containers", "flowcon_fit, containers"]
    assert both.labels() == labels
    stretches = [(1.0, 1.0, 1.0), (1.0, 1.0, 0.5), (2.0, 2.0, 2.0), (2.0, 2.0, 1.0)]
    runs = [
        msgspec.structs.replace(run_of(contender.label, found), contender=contender)
        for contender, found in zip(both.contenders, stretches, strict=True)
    ]
    found = findings_of(both, runs)
    late = next(table for table in found.tables if table.name == "fixed-late")
    assert [row[0] for row in late.rows] == ["flowcon_fit", "flowcon_fit, containers"]
    assert [row[1] for row in late.rows] == pytest.approx([0.5, 0.5])
    assert not found.missed


# ---------------------------------------------------------------- how jobs learn over time
def table_of(parts: Iterable[Part]) -> Table:
    return next(part for part in parts if isinstance(part, Table))


def test_growth_efficiency_falls_as_the_loss_does() -> None:
    """Of an exponential at an even pace the drop in a span falls by the same factor from span to span."""
    runs = [run_of("none"), run_of("flowcon", (2.0, 1.0, 1.0))]
    found = table_of(growth_over_time("random10", runs, (1, 9)))
    assert [column.name for column in found.columns] == ["job", "from s", "none", "flowcon"]
    assert {row[0] for row in found.rows} == {FIXED[0].name} and len(found.rows) == NUM_SPANS
    ours = [row[3] for row in found.rows[1:8]]
    factors = [later / sooner for sooner, later in itertools.pairwise(ours)]  # type: ignore[operator]
    assert factors == pytest.approx([math.exp(-NUM_STEPS / SCALE / NUM_SPANS)] * 6, rel=0.15)
    ended = [row[2] for row in found.rows]
    assert ended[:10].count(None) == 0 and ended[10:] == [None] * 10, "it ended after half the time"


@pytest.mark.slow
@given(st.floats(0.1, 10.0), st.floats(0.01, 100.0))
def test_progress_does_not_depend_on_time_or_scale(stretch: float, scale: float) -> None:
    jobs = tuple(record(job, stretch, scale) for job in FIXED)
    run = msgspec.structs.replace(run_of("none"), contender=Contender("none", "fifo"), jobs=jobs)
    found = table_of(training_progress("random5", [run]))
    for row in found.rows:
        values = [float(value) for value in row[1:]]  # type: ignore[arg-type]
        expected = [1.0 - math.exp(-at * NUM_STEPS / SCALE) for at in PROGRESS_AT]
        assert values == sorted(values) and values == pytest.approx(expected, abs=0.1)


def test_a_job_without_cpu_time_has_no_growth_efficiency() -> None:
    run = run_of("none")
    idle = [msgspec.structs.replace(sample, cpu_s=0.0) for sample in run.jobs[0].samples]
    jobs = (msgspec.structs.replace(run.jobs[0], samples=tuple(idle)), *run.jobs[1:])
    found = table_of(growth_over_time("random10", [msgspec.structs.replace(run, jobs=jobs)], (1,)))
    assert found.rows == ()


@given(st.lists(st.floats(0.1, 20.0), min_size=3, max_size=3))
def test_times_at_once_add_up_to_those_of_the_jobs(stretches: list[float]) -> None:
    run = run_of("none", stretches)
    completions_s = [record.completion_s or 0.0 for record in run.jobs]
    assert at_once_s(run) @ [1.0, 2.0, 3.0] == pytest.approx(sum(completions_s))


def test_less_of_three_jobs_at_once_is_told() -> None:
    """FIXED begins jobs 4 s apart."""
    begins_s = [job.at_s for job in FIXED]
    [told] = overlap_of_jobs("fig3", [run_of("flowcon", (1.0, 0.5, 0.5)), run_of("none")])
    assert isinstance(told, Table)
    of = {column.name: [row[at] for row in told.rows] for at, column in enumerate(told.columns)}
    assert of["jobs at once"] == [1, 2, 3]
    all_three_s = begins_s[0] + 10.0 - begins_s[2]
    assert of["none"][2] == pytest.approx(max(0.0, all_three_s))
    assert float(of["flowcon"][2] or 0.0) < float(of["none"][2] or 0.0)


@pytest.mark.slow
def test_a_page_is_written(tmp_path: Path) -> None:
    runs = [run_of("none"), run_of("flowcon", (1.0, 1.0, 0.9)), run_of("flowcon_fit", (1.0, 1.0, 0.5))]
    three = replace(EXPERIMENT, contenders=(*EXPERIMENT.contenders, Contender("flowcon", "flowcon")))
    write(findings_of(three, runs), tmp_path / "out")
    files = write_page(PAPER, read(PAPER, tmp_path / "out"), tmp_path / "docs")
    names = {file.name for file in files}
    assert {"flowcon.md", "fixed.png", "fixed.csv"} <= names and "fixed-cpu.png" not in names
    text = files[0].read_text(encoding="utf-8")
    assert "weights of cgroup v1" in text
    assert "* fixed: the late job under flowcon takes 0.900 of its time\n" in text


# ---------------------------------------------------------------- how it is played
@given(st.integers(1, 15), st.integers(0, 100), st.floats(1.0, 10.0))
def test_a_shorter_schedule_is_the_same_in_less_time(num: int, seed: int, factor: float) -> None:
    schedule = drawn(num, seed)
    for job, short in zip(schedule, shortened(schedule, factor), strict=True):
        assert short.at_s == pytest.approx(job.at_s / factor) and short.name == job.name
        assert short.steps == pytest.approx(job.steps / factor, abs=0.5)


@given(st.floats(1.0, 10.0))
def test_a_shorter_interval_is_no_shorter_than_reports_are_apart(factor: float) -> None:
    contender = Contender("flowcon", "flowcon", (("alpha", 0.05), ("interval_s", 2.0)))
    found = dict(contender.shortened(factor).parameters)
    assert found == pytest.approx({"alpha": 0.05, "interval_s": max(2.0 / factor, REPORT_S)})
    assert contender.shortened(1.0) == contender


def test_without_an_engine_containers_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    context = Context(data=Path(), platforms=lambda: pytest.fail("a platform was started"), image="py:1")
    with pytest.raises(InvalidInput, match=r"--image py:1 needs Docker or Podman: docker cannot be used"):
        EXPERIMENT.run(context)


def test_without_the_image_containers_are_refused_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with fake_docker(tmp_path) as engine:
        assert engine_with(engine.image).name == "docker"
        with pytest.raises(InvalidInput, match=r"--image none:1: docker has no such image; get it with"):
            engine_with("none:1")


def test_without_platforms_nothing_is_measured() -> None:
    with pytest.raises(InvalidInput, match="measured on real processes"):
        EXPERIMENT.run(Context(data=Path()))


@pytest.mark.slow
def test_each_contender_plays_each_schedule_in_another_order(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    played: list[tuple[int, str, list[str]]] = []
    options: list[list[str]] = []

    @contextmanager
    def platforms() -> Iterator[Up]:
        @contextmanager
        def up(chosen: Sequence[str]) -> Iterator[Client]:
            options.append(list(chosen))
            yield None  # type: ignore[misc]

        yield up

    def play(
        client: Client,
        schedule: Schedule,
        contender: Contender,
        repetition: int,
        advance: object,
        shortened: float,
    ) -> ColocatedRun:
        played.append((repetition, contender.label, [job.name for job in schedule]))
        run = run_of(contender.label, repetition=repetition)
        return msgspec.structs.replace(run, contender=contender, shortened=shortened)

    monkeypatch.setattr(colocated_experiment, "run_schedule", play)
    EXPERIMENT.run(Context(data=Path(), platforms=platforms, repetitions=6, runs=tmp_path, shorter=2.0))
    assert sorted((repetition, label) for repetition, label, _ in played) == [
        (repetition, label) for repetition in range(6) for label in ("flowcon_fit", "none")
    ]
    assert len({tuple(label for _, label, _ in played[at : at + 2]) for at in range(0, 12, 2)}) == 2
    assert all("--cores" in chosen for chosen in options)
    again = EXPERIMENT.run(Context(data=Path(), played=tmp_path))
    assert (
        again.tables[0].rows[0][0] == "none"
        and "6 repetitions, jobs and times 2 times shorter" in again.truth[0]
    )


def test_a_repetition_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    contenders = EXPERIMENT.contenders
    whole = [_of(contender, 0) for contender in contenders]
    (tmp_path / "fixed-runs.json").write_bytes(msgspec.json.encode([*whole, _of(contenders[0], 1)]))
    assert "1 repetitions, weights" in EXPERIMENT.run(Context(data=Path(), played=tmp_path)).truth[0]


@pytest.mark.parametrize("num_runs", [0, 1])
def test_without_a_whole_repetition_nothing_is_told(tmp_path: Path, num_runs: int) -> None:
    runs = [_of(EXPERIMENT.contenders[0], 0)] * num_runs
    (tmp_path / "fixed-runs.json").write_bytes(msgspec.json.encode(runs))
    with pytest.raises(InvalidInput, match=r"no whole repetition; run fixed again"):
        EXPERIMENT.run(Context(data=Path(), played=tmp_path))


def _of(contender: Contender, repetition: int) -> ColocatedRun:
    return msgspec.structs.replace(run_of(contender.label, repetition=repetition), contender=contender)


@pytest.mark.parametrize("content", [None, b"[", b"[{}]"])
def test_runs_that_cannot_be_read_are_named(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "fixed-runs.json").write_bytes(content)
    with pytest.raises(InvalidInput, match=r"fixed-runs\.json .* run fixed"):
        EXPERIMENT.run(Context(data=Path(), played=tmp_path))
