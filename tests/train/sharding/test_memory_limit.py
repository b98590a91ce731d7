"""A job that is too large for the memory that one worker may have, under a limit that the kernel keeps."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.train.fake_agent import FakeAgent

from swell.executors.local.limits.control_groups import ControlGroups
from swell.executors.local.limits.detection import limiter_offers, new_limiter
from swell.executors.local.limits.limiter import CoreSharing, Limiter
from swell.train.state.checkpoint import load_checkpoint
from swell.wire import messages

WIDE = Path(__file__).parents[1] / "scripts" / "wide.py"
STEPS = 9
#: The state takes 453 MB, and half of it 227 MB; the rest is what a block needs while it computes, and torch.
LIMIT_BYTES = 480 * 10**6


@pytest.fixture
def limiter(tmp_path: Path) -> Iterator[Limiter]:
    """Limits memory; skips where this machine does not let us."""
    made = new_limiter(CoreSharing(), tmp_path / "limits")
    if not isinstance(made, ControlGroups):
        pytest.skip(
            "; ".join(f"{each.name}: {each.why_not}" for each in limiter_offers() if not each.is_offered)
        )
    yield made
    made.close()


@pytest.fixture
def disk() -> Iterator[Path]:
    """A folder on a disk: what lies in one of `tmp_path` may count as a worker's memory."""
    with TemporaryDirectory(dir=Path(__file__).parent) as folder:
        yield Path(folder)


def begin(agent: FakeAgent, limiter: Limiter, workers: list[int], *args: str) -> None:
    """Start workers, each with a limit of its own, and have them train together."""
    for worker in workers:
        process = agent.start(worker, WIDE, *args)
        group = limiter.group(f"worker-{worker}")
        try:
            group.limit_memory(LIMIT_BYTES)
        except OSError as error:
            pytest.skip(f"memory cannot be limited here: {error}")
        assert process.pid is not None
        group.add(process.pid)
    for worker in workers:
        agent.wait(worker, messages.Ready)
    agent.regroup(workers, source=None)


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_two_workers_train_save_and_read_what_one_cannot_hold(
    start_agent: Callable[..., FakeAgent], limiter: Limiter, disk: Path, tmp_path: Path
) -> None:
    result, saves = tmp_path / "result.json", {"checkpoint_dir": str(disk / "checkpoints")}
    alone = start_agent(global_batch=8, total_steps=STEPS)
    begin(alone, limiter, [0], str(result), str(STEPS), "blocks")
    assert alone.exit_status(0) == -signal.SIGKILL, "the kernel lets one worker have the whole state"

    for workers, end in (([1, 2], STEPS), ([3, 4], STEPS + 3)):
        pair = start_agent(global_batch=8, total_steps=end, checkpoint_interval_s=0.5, **saves)
        begin(pair, limiter, workers, str(result), str(end), "blocks")
        for worker in workers:
            assert pair.exit_status(worker) == 0, pair.logs()
        assert 0 < load_checkpoint(disk / "checkpoints")["steps"] <= end

    free = start_agent(global_batch=8, total_steps=STEPS + 3)
    free.start_ready([5], WIDE, str(tmp_path / "free.json"), str(STEPS + 3), "whole")
    free.join([5], source=None)
    assert free.exit_status(5) == 0
    ours, theirs = (json.loads(each.read_text()) for each in (result, tmp_path / "free.json"))
    assert ours == pytest.approx(theirs, rel=1e-4)
