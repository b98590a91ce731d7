"""A real platform on a disk that is filled and freed: jobs train on, nothing is lost, all is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.full_disk import fill, mounted
from tests.platform.program import Program, eventually, is_alive, kill

TALK = """
from pathlib import Path
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from swell import train

torch.manual_seed(0)
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=64)
run = train.elastic(model, optimizer, loader, epochs=100_000)
for _ in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        run.step(loss)
        print(run.steps, "x" * 1000, flush=True)
    Path("steps").write_text(str(run.steps))
    if Path("enough").exists():
        break
print("the end")
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Smaller than the room that the journal keeps: there is none."""
    with mounted(tmp_path / "disk", 6 << 20) as folder:
        yield folder


@pytest.fixture
def program(disk: Path) -> Iterator[Program]:
    program = Program(disk / "state")
    settings = ("checkpoint_interval_s=1", "min_free_bytes=100000", "log_bytes=66000")
    program.ok(
        "up", "--devices", "paced:1@3200", *(word for setting in settings for word in ("--set", setting))
    )
    yield program
    (disk / "ballast").unlink(missing_ok=True)
    program("down")
    assert program.processes() == set()


@pytest.mark.soak
def test_jobs_train_on_a_full_disk_and_the_platform_goes_on_when_there_is_room(
    program: Program, disk: Path, tmp_path: Path
) -> None:
    script = tmp_path / "talk.py"
    script.write_text(TALK)
    job = program.submit(tmp_path, "--workers", 1, "--epochs", 100_000, script=script)

    def steps() -> int:
        return int((tmp_path / "steps").read_text() or 0) if (tmp_path / "steps").exists() else 0

    def await_steps(num: int) -> None:
        goal = steps() + num
        eventually(lambda: steps() >= goal, f"{num} steps")

    logs = disk / "state" / "jobs" / job
    eventually(lambda: list(logs.glob("worker-0.log.*")), "a rotated log")
    eventually(lambda: list((logs / "checkpoints").glob("step-*")), "a checkpoint")
    (pid,) = program.job(job).live_pids

    ballast = fill(disk)
    eventually(lambda: "warning, journal: the platform stands still" in program.ok("nodes"), "a standstill")
    await_steps(30)
    assert "stands still" in program("jobs").stderr
    refused = program("submit", "--script", script, "--workdir", tmp_path, "--global-batch", 64, "--steps", 1)
    assert refused.returncode == 5 and "make room on its disk" in refused.stderr

    assert program.daemon_pid is not None
    kill(program.daemon_pid)
    assert "it stopped at" in (told := program("jobs").stderr) and "disk is full" in told, "its last words"
    assert "make room" in program("up").stderr
    await_steps(30)

    ballast.unlink()
    assert "platform is up" in program.ok("up")
    program.await_job(
        job, lambda view: view.steps > 60 and not view.warnings, "the end of all warnings, with no step lost"
    )
    assert program.job(job).live_pids == (pid,) and is_alive(pid)
    eventually(lambda: not (logs / "worker-0.log").exists(), "output that is no longer kept")
    (tmp_path / "enough").touch()
    program.await_end(job)
    text = program.ok("logs", job)
    assert "bytes before this were discarded]" in text.splitlines()[0]
    assert "the end" in text
    assert sum(path.stat().st_size for path in logs.glob("worker-0.log*")) <= 66_000
    assert "no checkpoint since step" in " ".join(program.ok("explain", job).split())

    program.ok("down")
    assert "removed 1 ended job" in program.ok("admin", "prune", "--older-than", "1s")
    assert not logs.exists()
    assert "removed 0 ended jobs" in program.ok("admin", "prune", "--older-than", "1s")
