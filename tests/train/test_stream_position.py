"""Who joins a gang reads its stream up to where that is, before it comes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.train.fake_agent import FakeAgent

from swell.train.data.place import Place, StreamPosition
from swell.wire import messages

SLOWLY = Path(__file__).parent / "scripts" / "slowly.py"


@pytest.mark.slow
def test_a_joiner_reads_while_the_others_train(start_agent: Callable[..., FakeAgent], tmp_path: Path) -> None:
    agent = start_agent(total_steps=10**6, global_batch=4, checkpoint_interval_s=1e9)
    agent.start_ready([0], SLOWLY, str(tmp_path), "0.005")
    agent.checkpoint_dir.mkdir()  # as a real agent does
    agent.join([0], source=None)
    at_start = agent.wait_steps(0, 100).steps
    agent.start(1, SLOWLY, str(tmp_path), "0.001")
    agent.wait(1, messages.Ready)
    assert any(worker == 1 and said.awaits == "data" for worker, said in agent.all_said(messages.Alive))
    steps = agent.join([0, 1], source=0)
    assert steps > at_start, "the other one trained on"
    agent.wait(0, messages.Progress, lambda message: message.num_workers == 2)
    joined, read = map(int, agent.log(1).read_text().split())
    assert joined == steps
    assert read >= 4 * at_start


def test_a_gang_whose_leader_is_gone_goes_on_from_what_it_saved(tmp_path: Path) -> None:
    assert StreamPosition(tmp_path).read() is None
    leader = StreamPosition(tmp_path)
    leader.note(Place(epoch=1, start=8, step=20), is_saved=True)
    leader.note(Place(epoch=2, start=40, step=50))
    read = StreamPosition(tmp_path).read()
    assert read is not None
    assert (read.epoch, read.start, read.step) == (2, 40, 50)
    successor = StreamPosition(tmp_path)
    successor.note(Place(epoch=3, start=4, step=60))
    path = tmp_path / "stream.json"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    path.write_text(path.read_text().replace(f'"pid":{os.getpid()}', f'"pid":{gone.pid}'))
    read = StreamPosition(tmp_path).read()
    assert read is not None
    assert (read.epoch, read.start, read.step) == (1, 8, 20)


def test_what_cannot_be_read_or_written_is_no_hint(tmp_path: Path) -> None:
    (tmp_path / "stream.json").write_text("{")
    assert StreamPosition(tmp_path).read() is None
    StreamPosition(tmp_path / "gone").note(Place(start=1))
    assert StreamPosition(tmp_path / "gone").read() is None
