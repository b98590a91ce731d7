"""While the next group forms the present one trains, whatever becomes of the next one."""

from __future__ import annotations

from pathlib import Path

from tests.train.curve_runs import CURVE, EPOCHS, assert_same_learning, finish
from tests.train.fake_agent import FakeAgent

from swell.wire import messages

#: curve.py that comes to its group and does not connect before a file is gone.
LATE = CURVE.with_name("late.py")
#: A member that has waited for its peers for so long has entered its group.
WAITING_S = 0.1


def begin(agent: FakeAgent, tmp_path: Path) -> tuple[Path, int]:
    """Two workers train, and form a group with a third one that does not connect. Its gate; that group."""
    gate = tmp_path / "gate"
    gate.touch()
    args = (str(tmp_path / "result.json"), str(EPOCHS))
    agent.start_ready([0, 1], CURVE, *args)
    agent.start_ready([2], LATE, str(gate), "connect", *args)
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 1)
    hopeless = agent.regroup([0, 1, 2], source=0)
    agent.wait(0, messages.Bound, lambda bound: bound.generation == hopeless)
    return gate, hopeless


def await_steps(agent: FakeAgent, number: int) -> None:
    """Until the first group has made so many steps more."""
    steps = max(said.steps for _, said in agent.all_said(messages.Progress))
    told = agent.wait_steps(0, steps + number)
    assert (told.generation, told.num_workers) == (1, 2)


def test_a_joiner_that_dies_leaves_those_that_train_alone(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    _, hopeless = begin(agent, tmp_path)
    await_steps(agent, 2)
    agent.kill(2)
    for worker in (0, 1):
        agent.tell(worker, messages.Abort(generation=hopeless))
    for worker in (0, 1):
        failed = agent.wait(worker, messages.JoinFailed)
        assert failed.generation == hopeless
    await_steps(agent, 2)
    assert agent.join([0, 1], source=0) > 0
    assert not agent.all_said(messages.Broken)
    finish(agent, [0, 1])
    assert_same_learning(tmp_path / "result.json", plain)


def test_a_newer_order_takes_the_place_of_the_one_whose_group_forms(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    begin(agent, tmp_path)
    await_steps(agent, 2)
    assert agent.join([0, 1], source=0) > 0
    assert not agent.all_said(messages.Broken)  # one may say JoinFailed: the other has heard the order first
    finish(agent, [0, 1])
    assert_same_learning(tmp_path / "result.json", plain)


def test_a_member_that_does_not_vote_keeps_all_in_their_group(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    """It is cut off from the next group, which the others go on to form."""
    gate, hopeless = begin(agent, tmp_path)
    agent.tell(1, messages.Abort(generation=hopeless))
    assert agent.wait(1, messages.JoinFailed).generation == hopeless
    gate.unlink()
    await_steps(agent, 3)
    assert not agent.all_said(messages.Broken)
    agent.tell(2, messages.Abort(generation=hopeless))
    agent.join([0, 1, 2], source=0)
    finish(agent, [0, 1, 2])
    assert_same_learning(tmp_path / "result.json", plain)


def test_one_that_dies_instead_of_leaving_takes_nobody_from_the_next_group(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    """The group that trains breaks, and its other members enter the next one once that has formed."""
    gate = tmp_path / "gate"
    gate.touch()
    args = (str(tmp_path / "result.json"), str(EPOCHS))
    agent.start_ready([0, 1, 2], CURVE, *args)
    agent.start_ready([3], LATE, str(gate), "connect", *args)
    agent.join([0, 1, 2], source=None)
    agent.wait_steps(0, 1)
    wanted = agent.regroup([0, 1, 3], source=0)
    agent.wait(0, messages.Bound, lambda bound: bound.generation == wanted)
    agent.kill(2)
    for worker in (0, 1):
        agent.tell(worker, messages.Abort(generation=1))
        assert agent.wait(worker, messages.Broken).generation == 1
    gate.unlink()
    for worker in (0, 1, 3):
        agent.wait(worker, messages.Joined, lambda joined: joined.generation == wanted)
    assert not agent.all_said(messages.JoinFailed)
    finish(agent, [0, 1, 3])
    assert_same_learning(tmp_path / "result.json", plain)


def test_a_group_that_breaks_while_its_members_enter_it_keeps_none_from_a_newer_one(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    """The word that it is broken and the next order may come together, before a member has noticed."""
    gate = tmp_path / "gate"
    gate.touch()
    args = (str(tmp_path / "result.json"), str(EPOCHS))
    agent.start_ready([0, 1], CURVE, *args)
    agent.start_ready([2], LATE, str(gate), "card", *args)
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 1)
    hopeless = agent.regroup([0, 1, 2], source=0)
    for worker in (0, 1):
        agent.wait(
            worker, messages.Alive, lambda alive: alive.generation == hopeless and alive.for_s > WAITING_S
        )
    with agent.together():
        for worker in (0, 1):
            agent.tell(worker, messages.Abort(generation=hopeless))
        wanted = agent.regroup([0, 1], source=0)
    for worker in (0, 1):
        agent.wait(worker, messages.Joined, lambda joined: joined.generation == wanted)
        assert agent.wait(worker, messages.Broken).generation == hopeless
    finish(agent, [0, 1])
    assert_same_learning(tmp_path / "result.json", plain)
