"""FlowCon's policy on real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.platform.program import Program, job_id

import swell_papers
from swell.model.view import JobView

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
