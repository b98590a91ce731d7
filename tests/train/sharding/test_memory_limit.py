"""A job that is too large for the memory that one worker may have, under a limit that the kernel keeps."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.eventually import eventually
from tests.train.fake_agent import FakeAgent

from swell.train.state.checkpoint import load_checkpoint
from swell.wire import messages
from swell.wire.group_places import UNIFIED, GroupFiles, group_places

WIDE = Path(__file__).parents[1] / "scripts" / "wide.py"
STEPS = 9
#: The state takes 453 MB, and half of it 227 MB; the rest is what a block needs while it computes, and torch.
LIMIT_BYTES = 480 * 10**6


@pytest.fixture
def limit_memory() -> Iterator[Callable[[int], None]]:
    """Gives a process a control group of its own; skips where this machine does not let us."""
    places, made = group_places(GroupFiles()), list[Path]()
    controller, file = ("memory", "memory.limit_in_bytes") if "memory" in places else (UNIFIED, "memory.max")

    def limit(pid: int) -> None:
        folder = places[controller].folder / f"swell-test-{pid}"
        try:
            folder.mkdir()
            made.append(folder)
            for name, number in ((file, LIMIT_BYTES), ("cgroup.procs", pid)):
                GroupFiles().write(folder / name, str(number))
        except OSError as error:
            pytest.skip(f"memory cannot be limited here: {error}")

    yield limit
    for folder in made:
        eventually(lambda folder=folder: not GroupFiles().pids(folder))  # type: ignore[misc]
        folder.rmdir()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: what lies in one of `tmp_path` may count as a worker's memory."""
    with TemporaryDirectory(dir=Path(__file__).parent) as folder:
        yield Path(folder)


def begin(agent: FakeAgent, limit_memory: Callable[[int], None], workers: list[int], *args: str) -> None:
    """Start workers, each with a limit of its own, and have them train together."""
    for worker in workers:
        process = agent.start(worker, WIDE, *args)
        assert process.pid is not None
        limit_memory(process.pid)
    for worker in workers:
        agent.wait(worker, messages.Ready)
    agent.regroup(workers, source=None)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_two_workers_train_save_and_read_what_one_cannot_hold(
    start_agent: Callable[..., FakeAgent], limit_memory: Callable[[int], None], disk: Path, tmp_path: Path
) -> None:
    result, saves = tmp_path / "result.json", {"checkpoint_dir": str(disk / "checkpoints")}
    alone = start_agent(global_batch=8, total_steps=STEPS)
    begin(alone, limit_memory, [0], str(result), str(STEPS), "blocks")
    assert alone.exit_status(0) == -signal.SIGKILL, "the kernel lets one worker have the whole state"

    for workers, end in (([1, 2], STEPS), ([3, 4], STEPS + 3)):
        pair = start_agent(global_batch=8, total_steps=end, checkpoint_interval_s=0.5, **saves)
        begin(pair, limit_memory, workers, str(result), str(end), "blocks")
        for worker in workers:
            assert pair.exit_status(worker) == 0, pair.logs()
        assert 0 < load_checkpoint(disk / "checkpoints")["steps"] <= end

    free = start_agent(global_batch=8, total_steps=STEPS + 3)
    free.start_ready([5], WIDE, str(tmp_path / "free.json"), str(STEPS + 3), "whole")
    free.join([5], source=None)
    assert free.exit_status(5) == 0
    ours, theirs = (json.loads(each.read_text()) for each in (result, tmp_path / "free.json"))
    assert ours == pytest.approx(theirs, rel=1e-4)
