"""A script that raises in a step leaves the state of the last finished one, whichever worker it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tests.train.fake_agent import FakeAgent

from swell.train import load_checkpoint
from swell.wire import messages

SCRIPT = Path(__file__).parent / "scripts" / "raises.py"
LATE_S = 1e9  # no checkpoint comes by itself


@pytest.mark.parametrize(
    ("ranks", "where"), [((0,), "loop"), ((1,), "loop"), ((0, 1), "loop"), ((1,), "after")]
)
def test_what_is_kept_is_the_state_after_the_step_before(
    start_agent: Callable[..., FakeAgent], tmp_path: Path, ranks: tuple[int, ...], where: str
) -> None:
    agent = start_agent(total_steps=40, global_batch=6, checkpoint_interval_s=LATE_S)
    agent.start_ready([0, 1], SCRIPT, "9", ",".join(map(str, ranks)), str(tmp_path), where)
    agent.join([0, 1], source=None)
    for worker in ranks:
        assert "ZeroDivisionError: in the loop" in agent.wait(worker, messages.Failed).message
        kept = load_checkpoint(agent.checkpoint_dir)  # safe before anybody fails
        assert agent.exit_status(worker) == 1
    assert kept["steps"] == 8
    assert kept["loss"]["mean"] is not None
    for rank in ranks:
        expected = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        assert kept["model"].keys() == expected.keys()
        for name, tensor in expected.items():
            assert torch.equal(kept["model"][name], tensor), f"{name} is not that after step 8"
    saved = [said for _, said in agent.all_said(messages.CheckpointSaved)]
    assert [said.steps for said in saved] == [8], "several write it once"
    assert len(list(agent.checkpoint_dir.iterdir())) == 1


def test_half_an_update_is_not_kept_nor_is_a_beginning(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    for step, where in (("9", "update"), ("1", "loop")):
        agent = start_agent(total_steps=40, global_batch=6, checkpoint_interval_s=LATE_S)
        agent.start_ready([0], SCRIPT, step, "0", str(tmp_path), where)
        agent.join([0], source=None)
        assert "ZeroDivisionError" in agent.wait(0, messages.Failed).message
        assert not agent.all_said(messages.CheckpointSaved)
        assert not agent.all_said(messages.SaveFailed)
        assert not list(agent.checkpoint_dir.glob("*.pt"))


def test_what_a_job_has_ended_with_is_saved_once(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    agent = start_agent(total_steps=12, global_batch=6, checkpoint_interval_s=LATE_S)
    agent.start_ready([0, 1], SCRIPT, "99", "9", str(tmp_path), "loop")
    agent.join([0, 1], source=None)
    for worker in (0, 1):
        agent.wait(worker, messages.Finished)
        assert agent.exit_status(worker) == 0, agent.logs()
    assert load_checkpoint(agent.checkpoint_dir)["steps"] == 12
    assert [said.steps for _, said in agent.all_said(messages.CheckpointSaved)] == [12]
    kinds = [type(said) for worker, said in agent.said if worker == 0]
    assert kinds.index(messages.Finished) < kinds.index(messages.CheckpointSaved), "its end waits for no disk"
