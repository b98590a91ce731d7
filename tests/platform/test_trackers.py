"""The programs of `track-runs.md`, with the real packages: one run, and each step once, whatever happens."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, Program

from swell.model.view import JobView

EXAMPLES = Path(__file__).parents[2] / "examples"
#: Steps of W&B that a kill may cost: some tenths of a second, on a busy machine.
MOST_UNWRITTEN = 20
#: Bytes of a block of a file of W&B.
BLOCK = 32768
VARIABLES = ("MLFLOW_TRACKING_URI=file:./mlruns", "MLFLOW_ALLOW_FILE_STORE=true", "WANDB_MODE=offline")


def tensorboard_steps(folder: Path, run_id: str) -> list[int]:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(folder / "runs" / run_id), size_guidance={"scalars": 0})
    found.Reload()
    return [one.step for one in found.Scalars("loss")]


def mlflow_steps(folder: Path, run_id: str) -> list[int]:
    (run,) = [path.parent for path in folder.glob("mlruns/*/*/meta.yaml")]
    assert (run / "tags" / "swell").read_text() == run_id
    lines = (run / "metrics" / "loss").read_text().splitlines()
    return [int(line.split()[2]) for line in lines]


def wandb_steps(folder: Path, run_id: str) -> list[int]:
    """All but those that a killed process had not written yet, for which the page gives a time."""
    protocol = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
    assert {file.stem for file in files} == {f"run-{run_id}"} and len(files) > 2
    steps: list[int] = []
    for file in files:
        histories = [protocol.Record.FromString(content).history for content in records_in(file)]
        items = [
            {one.key or one.nested_key[0]: one.value_json for one in record.item} for record in histories
        ]
        own = [int(one["train_step"]) for one in items if "train_step" in one]
        assert own == list(range(own[0], own[-1] + 1)) and own[0] > len(steps)
        assert own[0] - len(steps) <= MOST_UNWRITTEN
        steps += range(len(steps) + 1, own[-1] + 1)
    return steps


def records_in(file: Path) -> Iterator[bytes]:
    """Records of a file as LevelDB's log has them, behind a header of seven bytes."""
    content, place, record = file.read_bytes(), 7, b""
    while place + 7 <= len(content):
        if (left := BLOCK - place % BLOCK) < 7:
            place += left
            continue
        _, size, kind = struct.unpack_from("<IHB", content, place)
        record += content[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # whole, or its last part
            yield record
            record = b""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "steps_in"),
    [("tensorboard", tensorboard_steps), ("mlflow", mlflow_steps), ("wandb", wandb_steps)],
)
def test_a_run_has_each_step_once(
    swell: Program, tmp_path: Path, package: str, steps_in: Callable[[Path, str], list[int]]
) -> None:
    pytest.importorskip(package)
    script = tmp_path / "train.py"
    script.write_text((EXAMPLES / "tracked_run.py").read_text())
    (tmp_path / "tracker.py").write_text((EXAMPLES / f"track_with_{package}.py").read_text())
    words = [word for variable in VARIABLES for word in ("--env", variable)]
    options = ("--epochs", ENDLESS, "--workers", "1:4", "--checkpoint-interval", "1s", *words)
    options += ("--speed", "1:640,2:1280,4:2560", "--keep-estimates")
    job = swell.submit(tmp_path, *options, script=script)

    def await_size(is_so: Callable[[JobView], bool], what: str) -> JobView:
        begin = swell.await_job(job, is_so, what).steps
        return swell.await_job(job, lambda view: is_so(view) and view.steps >= begin + 10, f"steps {what}")

    view = await_size(lambda view: view.workers == 4, "with 4 workers")
    other = tmp_path / "other"
    other.mkdir()
    taker = swell.submit(other, "--epochs", ENDLESS, "--workers", "2")
    await_size(lambda view: view.workers == 2, "with fewer workers")
    swell.ok("cancel", taker)
    view = await_size(lambda view: view.workers == 4, "with 4 workers again")
    os.kill(view.live_pids[0], signal.SIGKILL)
    view = await_size(
        lambda now: now.workers == 4 and now.live_pids[0] != view.live_pids[0], "with a new leader"
    )
    for pid in view.live_pids:
        os.kill(pid, signal.SIGKILL)
    view = await_size(lambda now: now.workers == 4 and not {*now.live_pids} & {*view.live_pids}, "once more")
    swell.ok("hold", job)
    swell.await_job(job, lambda view: view.is_held and not view.live_pids, "held")
    swell.ok("resume", job)
    await_size(lambda view: view.workers == 4, "after a hold")
    swell.ok("cancel", job)
    swell.await_end(job, "cancelled")
    steps = steps_in(tmp_path, job)
    assert steps == list(range(1, len(steps) + 1)) and len(steps) >= 60
