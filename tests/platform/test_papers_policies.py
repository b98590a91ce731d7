"""Policies of the papers on real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, Program, job_id, read_diary, submission

import swell_papers
from swell.model.view import JobView

pytest.importorskip("torch")


OTHERS = ("hu.horizon_end=1", "hu_greedy")


def folders(parent: Path, *names: str) -> list[Path]:
    """New folders, one for the submissions of each job."""
    made = [parent / name for name in names]
    for folder in made:
        folder.mkdir()
    return made


# The others decide at the same moments: tests/sim/test_hu_runs.py has runs of each.
@pytest.mark.slow
@pytest.mark.parametrize("how", ["hu", *(pytest.param(name, marks=pytest.mark.soak) for name in OTHERS)])
def test_a_job_in_the_queue_has_devices_at_the_next_decision(
    how: str, apart: Program, tmp_path: Path
) -> None:
    """The first one shrinks inside its processes; every step is done once."""
    first_dir, second_dir = folders(tmp_path, "first", "second")
    policy, sign, _ = how.partition(".")
    apart.up_with(policy, f"{policy}.period_s=1", *([how] if sign else []))
    first = apart.submit(first_dir, "--epochs", ENDLESS)
    apart.await_training(first, 4, first_dir)
    second = apart.submit(second_dir, "--epochs", 8)
    apart.await_job(second, lambda job: job.workers > 0, "its share of the devices")
    assert apart.await_end(second).steps == 64
    num_steps = apart.finish(first, first_dir).steps
    sizes = [workers for _, workers in apart.job(first).sizes]
    assert sizes[0] == 4 and min(sizes[:-1]) < 4 and 0 not in sizes[:-1]
    assert [entry.step for entry in read_diary(first_dir)] == list(range(1, num_steps + 1))
    apart.ok("admin", "replay")


@pytest.mark.slow
def test_jobs_share_the_devices_and_one_more_is_dropped(apart: Program, tmp_path: Path) -> None:
    """Each has a device at least; who comes when there is none left is refused, and the others grow again."""
    first_dir, second_dir, wide_dir = folders(tmp_path, "first", "second", "wide")
    apart.up_with("saxena", "saxena.ended_share=0", "saxena.drops=1")
    first = apart.submit(first_dir, "--epochs", ENDLESS)
    apart.await_training(first, 4, first_dir)
    second = apart.submit(second_dir, "--epochs", 8)
    apart.await_job(second, lambda job: job.workers == 2, "half of the devices")
    dropped = apart(*submission(wide_dir, "--steps", 8, "--workers", 4))
    assert dropped.returncode == 3 and "refused: no device was left for it" in dropped.stdout
    assert apart.await_end(second).steps == 64
    num_steps = apart.finish(first, first_dir).steps
    sizes = [workers for _, workers in apart.job(first).sizes]
    assert sizes[0] == 4 and min(sizes[:-1]) < 4 and sizes[-1] == 0 and 0 not in sizes[:-1]
    assert [entry.step for entry in read_diary(first_dir)] == list(range(1, num_steps + 1))
    apart.ok("admin", "replay")


# A corrected objective is still one: tests/core/test_liveness.py lets both end every job.
@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    ["bftrainer", pytest.param("bftrainer.corrected=1", marks=pytest.mark.soak), "bftrainer_equal_share"],
)
def test_jobs_get_all_devices_between_them_and_each_step_is_made_once(
    how: str, apart: Program, tmp_path: Path
) -> None:
    """With room for one trainer the second waits; with room for both, equal shares are two devices each."""
    first_dir, second_dir = folders(tmp_path, "first", "second")
    is_equal = how == "bftrainer_equal_share"
    policy, sign, _ = how.partition(".")
    told = [how] if sign else []
    apart.up_with(policy, *told, *(() if is_equal else (f"{policy}.max_trainers=1",)))
    first = apart.submit(first_dir, "--epochs", ENDLESS)
    apart.await_training(first, 4, first_dir)
    second = apart.submit(second_dir, "--epochs", 8)
    if is_equal:
        apart.await_job(second, lambda job: job.workers == 2, "half of the devices")
    num_steps = apart.finish(first, first_dir).steps
    assert apart.await_end(second).steps == 64
    begun = [workers for _, workers in apart.job(second).sizes]
    assert begun[0] == (2 if is_equal else 4)
    for folder, last in ((first_dir, num_steps), (second_dir, 64)):
        assert [entry.step for entry in read_diary(folder)] == list(range(1, last + 1))
    apart.ok("admin", "replay")


SCRIPT = Path(swell_papers.__file__).parent / "scripts" / "perceptron.py"
#: More steps than any machine makes while a test looks; a job that is to end has `FEW`.
MANY, FEW = 10_000_000, 4_000


@pytest.fixture
def flowcon(tmp_path: Path) -> Iterator[Program]:
    """A platform whose policy divides one core between two slots."""
    program = Program(tmp_path / "state")
    words = ["up", "--devices", "cpu:2", "--cores", "1", "--policy", "flowcon"]
    program.ok(*words, "--set", "flowcon.interval_s=0.5", "--set", "flowcon.alpha=0.05")
    yield program
    program("down", "--force")


def submit(program: Program, folder: Path, num_steps: int) -> str:
    words = ["submit", "--script", SCRIPT, "--workdir", folder, "--elasticity", "restart", "--workers", "1"]
    return job_id(program.ok(*words, "--", "--steps", num_steps))


@pytest.mark.slow
@pytest.mark.timeout(300)  # as long as its four waits together may take
def test_a_job_without_torch_is_monitored_limited_and_finished(flowcon: Program, tmp_path: Path) -> None:
    """It takes seconds: jobs have to learn, and to stop learning, before the policy limits them."""
    beside, early = (submit(flowcon, tmp_path, MANY) for _ in range(2))

    def has_learnt(job: JobView) -> bool:
        return job.loss is not None and job.loss < 0.5 and bool(job.cpu_s) and job.metrics["step"] > 100

    first = flowcon.await_job(early, has_learnt, "a loss below 0.5, CPU time and steps of its own count")
    assert first.steps == 0, "no optimizer of torch was seen"
    limited = flowcon.await_job(early, lambda job: job.share is not None and job.share < 1.0, "a limit")
    later = flowcon.await_job(early, lambda job: job.share != limited.share, "another limit")
    assert later.metrics["step"] > first.metrics["step"]
    flowcon.ok("cancel", beside)
    ended = flowcon.await_end(submit(flowcon, tmp_path, FEW))
    assert ended.metrics["step"] == FEW and ended.loss is not None and ended.loss < 0.3
    flowcon.ok("cancel", early)
