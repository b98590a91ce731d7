"""Real workers, each with a part of the optimizer's state, learn what a single process learns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from tests.train.curve_runs import CURVE, EPOCHS, PACE_PER_S, assert_same_learning, finish
from tests.train.fake_agent import FakeAgent
from tests.train.sharding.shard_losses import assert_mirrors_equal, assert_state_is_lost

from swell import train
from swell.wire import messages

FAULTS = CURVE.with_name("shard_faults.py")
LATE = CURVE.with_name("late.py")


@pytest.mark.slow
@pytest.mark.parametrize("word", ["shard", "mirrors", "blocks", "blocks-mirrors"])
def test_grows_and_shrinks(agent: FakeAgent, plain: Path, tmp_path: Path, word: str) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS), word)
    agent.start_ready([0, 1, 2, 3], CURVE, *args)
    assert agent.join([0], source=None) == 0
    steps, leader = [0], 0
    for members in ([0, 1, 2], [2, 1], [1, 2, 3]):
        agent.wait_steps(leader, steps[-1] + 2)
        steps.append(agent.join(members, source=leader if leader in members else members[0]))
        leader = members[0]
    finish(agent, [1, 2, 3])
    assert steps == sorted({*steps})
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.parametrize("victim", [0, 2])
def test_no_step_is_lost_with_a_worker(agent: FakeAgent, plain: Path, tmp_path: Path, victim: int) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS), "mirrors")
    agent.start_ready([0, 1, 2], CURVE, *args)
    agent.join([0, 1, 2], source=None)
    agent.wait_steps(0, 3)
    psutil.Process(agent.processes[victim].pid).kill()
    rest = [worker for worker in (0, 1, 2) if worker != victim]
    broken = [agent.wait(worker, messages.Broken).steps for worker in rest]
    assert agent.join(rest, source=rest[0]) >= max(broken)
    finish(agent, rest)
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.parametrize("victims", [(1,), (1, 0)])
def test_a_part_that_is_lost_sends_the_job_to_its_checkpoint(
    agent: FakeAgent, tmp_path: Path, victims: tuple[int, ...]
) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS), "shard")
    agent.start_ready([0, 1, 2], CURVE, *args)
    agent.join([0, 1, 2], source=None)
    agent.wait_steps(0, 3)
    for victim in victims:
        psutil.Process(agent.processes[victim].pid).kill()
    rest = [worker for worker in (0, 1, 2) if worker not in victims]
    for worker in rest:
        agent.wait(worker, messages.Broken)
    assert_state_is_lost(agent, rest)


def test_parts_that_are_not_handed_on_are_asked_for_when_one_dies_instead_of_leaving(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    """The other one that was to leave may have the only copies. So nobody enters the group without it."""
    gate = tmp_path / "gate"
    gate.touch()
    args = (str(tmp_path / "result.json"), str(EPOCHS), "mirrors")
    agent.start_ready([0, 1, 2, 3], CURVE, *args)
    agent.start_ready([4], LATE, str(gate), "connect", *args)
    agent.join([0, 1, 2, 3], source=None)
    agent.wait_steps(0, 3)
    wanted = agent.regroup([0, 1, 4], source=0, hands_on=True)
    agent.wait(0, messages.Bound, lambda bound: bound.generation == wanted)
    agent.kill(2)
    broken = []
    for worker in (0, 1):
        agent.tell(worker, messages.Abort(generation=1))
        broken.append(agent.wait(worker, messages.Broken).steps)
        failed = agent.wait(worker, messages.JoinFailed)
        assert failed.generation == wanted and "had handed on their parts" in failed.message
    agent.tell(3, messages.Abort(generation=1))
    broken.append(agent.wait(3, messages.Broken).steps)
    agent.kill(4)
    assert agent.join([0, 1, 3], source=0) >= max(broken)
    finish(agent, [0, 1, 3])
    assert_same_learning(tmp_path / "result.json", plain)


#: By worker, of three or four: what befalls it in step 7. One dies, and others know of the vote or do not.
KILLS = [
    {"1": "before the vote"},
    {"1": "after the vote"},
    {"1": "after the vote", "2": "unsure"},
    {"1": "after the vote", "0": "unsure"},
    {"1": "after the vote", "0": "unsure", "2": "unsure"},
    {"1": "before the parameters"},
    {"1": "before the parameters", "2": "unsure"},
    {"1": "amid the parameters"},
    {"1": "after the parameters"},
]


BLOCK_KILLS = [
    {"1": "before a gathering"},
    {"1": "after a gathering"},
    {"1": "amid the gradients"},
    {"1": "with a sum"},
    {"1": "in an evaluation"},
    {"0": "in an evaluation"},
    {"1": "in an evaluation", "2": "behind at block 0"},
    {"1": "in an evaluation", "3": "behind at block 0"},
    {"1": "in an evaluation", "0": "behind at block 0", "3": "behind at block 0"},
    {"1": "after an evaluation", "2": "behind at block 1"},
    {"1": "after an evaluation", "3": "behind at block 1"},
    {"1": "after the vote", "2": "unsure"},
    {"1": "before the parameters"},
]


def _named(value: object) -> str:
    return ", ".join(f"{w} {f}" for w, f in value.items()) if isinstance(value, dict) else str(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "faults"),
    [*(("mirrors", each) for each in KILLS), *(("blocks-mirrors", each) for each in BLOCK_KILLS)],
    ids=_named,
)
def test_after_a_kill_at_any_moment_there_is_one_state(
    agent: FakeAgent, plain: Path, tmp_path: Path, word: str, faults: dict[str, str]
) -> None:
    """Also where some workers have passed the vote of a step, or have a block, and others do not know."""
    agent.environ["SHARD_FAULTS"] = json.dumps({worker: [fault, 7] for worker, fault in faults.items()})
    everybody = range(4 if "3" in faults else 3)
    agent.start_ready(everybody, FAULTS, str(tmp_path / "result.json"), str(EPOCHS), word, "evaluate")
    agent.join(everybody, source=None)
    rest = [each for each in everybody if faults.get(str(each), "unsure").startswith(("unsure", "behind"))]
    broken = [agent.wait(worker, messages.Broken).steps for worker in rest]
    assert agent.join(rest, source=rest[0]) >= max(broken)
    finish(agent, rest)
    assert_same_learning(tmp_path / "result.json", plain)
    assert_mirrors_equal(tmp_path, rest)


@pytest.mark.slow
@pytest.mark.parametrize("behind", [0, 2])
def test_a_worker_past_the_last_evaluation_waits_for_those_who_are_not(
    agent: FakeAgent, plain: Path, tmp_path: Path, behind: int
) -> None:
    """A peer dies then: three of four are left, and none of them has everything."""
    agent.environ["SHARD_FAULTS"] = json.dumps({str(behind): ["behind at block 1", 8 * EPOCHS]})
    args = (str(tmp_path / "result.json"), str(EPOCHS), "blocks-mirrors", "evaluate")
    agent.start_ready([0, 1, 2, 3], FAULTS, *args)
    agent.join([0, 1, 2, 3], source=None)
    agent.let_end()
    agent.wait(behind, messages.Broken)
    agent.kill(1)
    for worker in (0, 2, 3):
        agent.wait(worker, messages.Broken)
    agent.join([0, 2, 3], source=0)
    finish(agent, [0, 2, 3])
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("victim", "moment", "word"),
    [
        (1, "before a copy", "mirrors"),
        (1, "before a copy", "blocks-mirrors"),
        (1, "after its copy", "mirrors"),
        (3, "before a copy", "blocks-mirrors"),
        (3, "after its copy", "blocks-mirrors"),
    ],
)
def test_a_kill_amid_a_change_loses_nothing(
    agent: FakeAgent, plain: Path, tmp_path: Path, victim: int, moment: str, word: str
) -> None:
    """Worker 1 was there, 3 is a newcomer. Some have what they lacked by then, and others have not."""
    change = 2 if victim == 1 else 1  # the first one is that in which all began
    agent.environ["SHARD_FAULTS"] = json.dumps({str(victim): [moment, change]})
    agent.start_ready([0, 1, 2, 3], FAULTS, str(tmp_path / "result.json"), str(EPOCHS), word)
    agent.join([0, 1, 2], source=None)
    agent.wait_steps(0, 3)
    generation = agent.regroup([0, 1, 2, 3], source=0)
    rest = [worker for worker in (0, 1, 2, 3) if worker != victim]
    failed = [
        agent.wait(worker, messages.Broken, lambda said: said.generation == generation) for worker in rest
    ]
    assert agent.join(rest, source=0) == max(message.steps for message in failed)
    finish(agent, rest)
    assert_same_learning(tmp_path / "result.json", plain)
    assert_mirrors_equal(tmp_path, rest)


@pytest.mark.slow
def test_a_newcomer_whose_group_breaks_before_it_has_its_part_claims_none(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    """Worker 2 has got what is not divided by then; 3, its neighbour, dies while it waits for the same."""
    agent.environ["SHARD_PLACES"] = json.dumps({"0": "a", "1": "a", "2": "b", "3": "b"})
    agent.environ["SHARD_FAULTS"] = json.dumps({"3": ["amid a state", 0]})
    agent.start_ready([0, 1, 2, 3], FAULTS, str(tmp_path / "result.json"), str(EPOCHS), "blocks")
    agent.join([0, 1], source=None)
    agent.wait_steps(0, 3)
    generation = agent.regroup([2, 3, 0, 1], source=0)
    for worker in (0, 1, 2):
        agent.wait(worker, messages.Broken, lambda said: said.generation == generation)
    agent.join([2, 0, 1], source=0)
    finish(agent, [2, 0, 1])
    assert_same_learning(tmp_path / "result.json", plain)


def test_a_worker_that_was_to_leave_stays_if_another_dies_before(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    """Its mirror dies in the very step after which it was to leave: it has the only copy of its part."""
    agent.environ["SHARD_FAULTS"] = json.dumps({"2": ["at an order", 0]})
    agent.start_ready([0, 1, 2], FAULTS, str(tmp_path / "result.json"), str(EPOCHS), "mirrors")
    agent.join([0, 1, 2], source=None)
    agent.wait_steps(0, 3)
    hopeless = agent.regroup([0, 2], source=0)  # the part of 1 lies at 2 as well, which dies
    for worker in (0, 1):
        agent.wait(worker, messages.Broken)
    agent.tell(0, messages.Abort(generation=hopeless))  # it may be in that group already
    agent.join([0, 1], source=0)
    finish(agent, [0, 1])
    assert_same_learning(tmp_path / "result.json", plain)


def drift_of(agent: FakeAgent, folder: Path, fault: str) -> messages.DriftFound:
    """Train with something that differs at worker 2 from step 7 on: what is told, once, of it."""
    agent.may_drift = True
    agent.environ["SHARD_FAULTS"] = json.dumps({"2": [fault, 7]})
    agent.start_ready([0, 1, 2], FAULTS, str(folder / "result.json"), str(EPOCHS), "mirrors")
    agent.join([0, 1, 2], source=None)
    finish(agent, [0, 1, 2])
    [(_, drifted)] = agent.all_said(messages.DriftFound)
    return drifted


def test_a_worker_whose_hyperparameters_differ_is_given_them_and_keeps_its_part(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    drifted = drift_of(agent, tmp_path, "drift")
    assert drifted.is_healed and "learning rate" in drifted.message
    assert_same_learning(tmp_path / "result.json", plain)
    assert_mirrors_equal(tmp_path, [0, 1, 2])


def test_a_mirror_that_differs_is_found_and_renewed(agent: FakeAgent, plain: Path, tmp_path: Path) -> None:
    drifted = drift_of(agent, tmp_path, "a mirror")
    assert drifted.is_healed and "mirrors=True" in drifted.message
    assert drifted.step == 9  # of those in which the workers of shard_faults.py compare, the next one
    assert_same_learning(tmp_path / "result.json", plain)  # owners alone hand parameters round
    assert_mirrors_equal(tmp_path, [0, 1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("word", ["shard", "blocks"])
def test_all_save_together_and_go_on_at_another_size(
    start_agent: Callable[..., FakeAgent], plain: Path, tmp_path: Path, word: str
) -> None:
    """A checkpoint has the whole state, as that of a job whose workers all have it."""
    folder = tmp_path / "checkpoints"
    args = (str(tmp_path / "result.json"), str(EPOCHS), word)
    first = start_agent(
        total_steps=EPOCHS * 8,
        pace_per_s=PACE_PER_S,
        checkpoint_interval_s=0.02,
        checkpoint_dir=str(folder),
        ends_when_told=True,
    )
    first.start_ready([0, 1, 2], CURVE, *args)
    first.join([0, 1, 2], source=None)
    first.wait(0, messages.CheckpointSaved)
    first.suspend()
    for worker in (0, 1, 2):
        first.wait(worker, messages.Left)
        assert first.exit_status(worker) == 143
    saved = train.load_checkpoint(folder)
    assert 0 < saved["steps"] < EPOCHS * 8
    moments = [kept["exp_avg"].shape for kept in saved["optimizer"]["state"].values()]
    assert moments == [(16, 5), (16,), (1, 16), (1,)]  # and none of the parameter without a gradient
    second = start_agent(total_steps=EPOCHS * 8, checkpoint_interval_s=1e9, checkpoint_dir=str(folder))
    second.start_ready([0, 1], CURVE, *args)
    assert second.join([0, 1], source=None) == saved["steps"]
    finish(second, [0, 1])
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["blocks", "blocks-mirrors"])
def test_a_step_in_several_passes_gathers_as_often_at_all_workers(
    start_agent: Callable[..., FakeAgent], plain: Path, tmp_path: Path, word: str
) -> None:
    """Though of three samples in the last step of an epoch one of two workers has more than the other."""
    agent = start_agent(
        total_steps=EPOCHS * 8,
        pace_per_s=PACE_PER_S,
        checkpoint_interval_s=1e9,
        max_local_batch=1,
        ends_when_told=True,
    )
    agent.start_ready([0, 1], CURVE, str(tmp_path / "result.json"), str(EPOCHS), word)
    agent.join([0], source=None)
    agent.wait_steps(0, 3)
    agent.join([1, 0], source=0)
    finish(agent, [0, 1])
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.slow
def test_all_workers_may_call_the_model_between_steps(
    agent: FakeAgent, run_plain: Callable[..., Path], tmp_path: Path
) -> None:
    args = (str(tmp_path / "result.json"), str(EPOCHS), "blocks", "evaluate")
    agent.start_ready([0, 1, 2], CURVE, *args)
    agent.join([0, 1, 2], source=None)
    finish(agent, [0, 1, 2])
    plain = run_plain("curve.py", str(EPOCHS), "evaluate")
    assert_same_learning(tmp_path / "result.json", plain)
    ours, theirs = (json.loads(each.read_text())["evaluations"] for each in (tmp_path / "result.json", plain))
    assert len(ours) == EPOCHS
    assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("word", ["mirrors", "blocks-mirrors"])
def test_one_worker_may_have_everything_and_the_others_not(
    agent: FakeAgent, plain: Path, tmp_path: Path, word: str
) -> None:
    """It is alone on its machine, and so mirrors all parts of the others. One of those dies."""
    agent.environ["SHARD_PLACES"] = json.dumps({"0": "a", "1": "b", "2": "b"})
    agent.environ["SHARD_FAULTS"] = json.dumps({"2": ["before the vote", 2]})
    agent.start_ready([0, 1, 2], FAULTS, str(tmp_path / "result.json"), str(EPOCHS), word, "evaluate")
    agent.join([0], source=None)
    agent.wait_steps(0, 3)
    agent.join([1, 0, 2], source=0)
    for worker in (0, 1):
        agent.wait(worker, messages.Broken)
    agent.join([1, 0], source=1)
    finish(agent, [0, 1])
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "word"), [("other machines", "blocks-mirrors"), ("one of them blind", "shard")]
)
def test_state_that_cannot_be_read_from_memory_comes_by_messages(
    agent: FakeAgent, plain: Path, tmp_path: Path, word: str, way: str
) -> None:
    if way == "other machines":
        agent.environ["SHARD_PLACES"] = json.dumps({"0": "a", "1": "b", "2": "c", "3": "d"})
    else:
        agent.environ["SHARD_FAULTS"] = json.dumps({"2": ["blind", 0]})
    agent.start_ready([0, 1, 2, 3], FAULTS, str(tmp_path / "result.json"), str(EPOCHS), word)
    agent.join([0], source=None)
    for members in ([0, 1, 2], [2, 1], [1, 2, 3]):
        agent.wait_steps(members[0], agent.join(members, source=members[0]) + 2)
    finish(agent, [1, 2, 3])
    assert_same_learning(tmp_path / "result.json", plain)


@pytest.mark.slow
def test_a_kill_while_the_leader_is_given_the_model_loses_nothing(
    agent: FakeAgent, plain: Path, tmp_path: Path
) -> None:
    agent.environ["SHARD_FAULTS"] = json.dumps({"1": ["at the end", 0]})
    agent.start_ready([0, 1, 2], FAULTS, str(tmp_path / "result.json"), str(EPOCHS), "blocks-mirrors")
    agent.join([0, 1, 2], source=None)
    agent.wait_steps(0, 3)
    agent.let_end()
    for worker in (0, 2):
        assert agent.wait(worker, messages.Broken).steps == EPOCHS * 8
    agent.join([2, 0], source=2)
    finish(agent, [2, 0])
    assert_same_learning(tmp_path / "result.json", plain)
