"""A node that is to be left gets no more work, and what is on it moves in time."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.bench import Bench, only
from tests.core.driven_world import ALL_FAULTS, DrivenWorld
from tests.core.fakes import core_of, node, spec
from tests.core.head import Head
from tests.examples import Shown, policies, share_of_examples

from swell.core.platform_core import PlatformCore
from swell.core.setbacks import MAX_SETBACKS
from swell.core.usable_nodes import together
from swell.live.recovery import changed_nodes
from swell.model.command import ProfileJob, Reconfigure, SuspendGang
from swell.model.event import (
    JobSubmitted,
    NodeCleared,
    NodeEndKnown,
    NodeJoined,
    NodeLost,
    NodeWarned,
    Outcome,
    ProfilingFailed,
    Woke,
)
from swell.model.job import Phase
from swell.placement.best_fit import BestFitPlacer
from swell.policies.registry import POLICIES
from swell.throughput.belief import FittedBelief

#: After the last fault every gang has moved within so many seconds: trial runs, pauses, and one hold time.
MOVED_WITHIN_S = 60.0

FATES = ("turn", "warn n0", "warn n1", "clear n0", "take n1", "late n1", "lend n1", "die")
SHOWN = Shown(*FATES, "trial", "gang")


def head_in(world: DrivenWorld, policy: str = "elasticflow") -> Head:
    return Head(lambda: core_of(POLICIES[policy](), BestFitPlacer(), FittedBelief), world)


def pass_time(head: Head, duration_s: float) -> None:
    """Or as much of it as something happens in."""
    until_s = head.world.now_s + duration_s
    while not head.world.is_quiet_until(until_s) and head.turn():
        pass


@pytest.mark.slow
@pytest.mark.parametrize("policy", policies(["elasticflow", "tiresias", "bftrainer"]))
@SHOWN.wholly
@settings(max_examples=share_of_examples(0.08), deadline=None)
@given(
    seed=st.integers(0, 2**20),
    fates=st.lists(
        st.sampled_from(("turn",) * 5 + FATES),
        min_size=25,  # so few examples would draw next to none else
        max_size=50,
    ),
)
def test_a_node_that_is_to_be_left_is_empty_soon_and_every_job_ends(
    policy: str, seed: int, fates: list[str]
) -> None:
    """Whatever fails before; `Head` checks at each turn that nothing is placed on such a node."""
    world = DrivenWorld(seed, ALL_FAULTS)
    head = head_in(world, policy)
    world.join(node("n0", 4))
    world.join(node("n1", 4))
    for number in range(4):
        head.submit(f"job{number}", spec(1000, max_workers=4))
    for fate in fates:
        match fate.split():
            case ["warn", name]:
                world.warn_node(name)
            case ["clear", name]:
                world.clear_node(name)
            case ["take", name]:
                world.lose_node(name)
            case ["late", name]:
                world.lose_node_late(name, 1.0)
            case ["lend", name]:
                world.join(node(name, 4))
            case ["die"]:
                head.die()
            case _:
                head.turn()
    SHOWN.note([*fates, *world.struck])
    world.calm_down()
    pass_time(head, 2.0)  # nodes that are on their way back
    world.join(node("n0", 4))
    world.clear_node("n0")
    world.warn_node("n1", MOVED_WITHIN_S)
    pass_time(head, MOVED_WITHIN_S)
    assert not [device for device in head.port.occupied if device.startswith("n1")], head.story()
    for _ in range(6000):
        if not head.turn():
            break
    assert len(head.ended) == 4, head.story()


def test_a_gang_moves_without_a_checkpoint_and_comes_back_when_the_warning_ends() -> None:
    world = DrivenWorld()
    head = head_in(world)
    for name in ("n0", "n1"):
        world.join(node(name, 2))
    head.submit("a", spec(20_000, min_workers=4))
    head.submit("b", spec(20_000, min_workers=2, max_workers=2))
    head.run_until(lambda: len(world.gangs) == 1)
    head.cancel("a")
    head.run_until(lambda: head.phase("b") is Phase.RUNNING)
    home = head.job("b").devices[0].split(".")[0]
    world.warn_node(home)
    head.run_until(lambda: not any(device.startswith(home) for device in world.gangs["b"].devices))
    assert head.phase("b") is Phase.RUNNING and head.job("b").resizes >= 1
    commands = [command for _, command in world.performed if getattr(command, "job_id", "") == "b"]
    assert not [command for command in commands if isinstance(command, SuspendGang)]


def test_what_is_lost_on_a_node_that_was_warned_of_is_no_fault_of_the_job() -> None:
    """Its machine may end the processes before it is gone itself."""
    bench = Bench()
    generation = bench.run("a", 4)
    bench.say(NodeWarned(at_s=bench.now_s, name="n0"))
    bench.gone(generation)
    assert bench.phase() is Phase.QUEUED
    [told] = [story.text for _, story in bench.core.stories() if story.code == "requeued"]
    assert "left the cluster, or were about to" in told


@pytest.mark.slow
def test_a_trial_run_without_devices_waits_however_often_and_says_why() -> None:
    cause = "another user of Ray has taken device n0.0"
    bench = Bench()
    [command] = bench.submit("a")
    waits_s = []
    for _ in range(2 * MAX_SETBACKS):
        assert isinstance(command, ProfileJob)
        taken = ProfilingFailed(
            at_s=bench.now_s,
            job_id="a",
            message=f"{cause}\nTraceback",
            outcome=Outcome.LOST,
            attempt=command.attempt,
            is_taken=True,
        )
        begun_s = bench.now_s
        bench.say(taken)
        assert bench.say(taken) == [] and bench.phase() is Phase.QUEUED
        assert bench.job().reason.startswith("waits ")
        assert bench.job().reason.endswith(f" s before its trial run is tried again: {cause}")
        while not (commands := bench.say(Woke(at_s=bench.now_s))):
            pass
        assert cause in bench.job().reason, "also while it asks again"
        waits_s.append(bench.now_s - begun_s)
        [command] = commands
    assert waits_s == sorted(waits_s) and waits_s[-1] > 30.0, "it asks less and less often"
    lost = ProfilingFailed(at_s=bench.now_s, job_id="a", message="killed", outcome=Outcome.LOST)
    for num in range(1, MAX_SETBACKS + 1):
        assert isinstance(command, ProfileJob)
        bench.say(msgspec.structs.replace(lost, at_s=bench.now_s, attempt=command.attempt))
        assert (bench.phase() is Phase.FAILED) == (num == MAX_SETBACKS), "races do not count, losses do"
        while num < MAX_SETBACKS and not (commands := bench.say(Woke(at_s=bench.now_s))):
            pass
        [command] = commands


CAUSES = st.sampled_from(["drained", "Ray drains it", "its owner needs it"])


@given(
    st.lists(
        st.tuples(CAUSES, st.none() | st.floats(10.0, 1000.0)) | st.tuples(CAUSES, st.just("clear")),
        max_size=12,
    ),
    st.booleans(),
)
def test_of_several_who_have_a_node_left_the_earliest_end_holds_and_all_are_told(
    told: list[tuple[str, float | str | None]], is_reborn: bool
) -> None:
    core = core_of()
    core.handle([NodeJoined(at_s=1.0, node=node("n0"))])
    standing: dict[str, float | None] = {}
    for why, word in told:
        if isinstance(word, str):
            standing.pop(why, None)
            core.handle([NodeCleared(at_s=2.0, name="n0", why=why)])
        else:
            standing[why] = word
            core.handle([NodeWarned(at_s=2.0, name="n0", until_s=word, why=why)])
        if is_reborn:
            saved = core.save()
            core = core_of()
            core.load(saved)
        if not standing:
            assert not core.state.warned
            continue
        warned = together(core.state.warned["n0"])
        ends = [end_s for end_s in standing.values() if end_s is not None]
        assert warned.until_s == min(ends, default=None)
        assert set(warned.why.split("; ")) == standing.keys()
    core.handle([NodeCleared(at_s=3.0, name="n0")])
    assert not core.state.warned, "a user's word ends all of them"


def test_a_warning_outlives_the_daemon_and_ends_with_the_node_or_at_a_word() -> None:
    core = core_of()
    core.handle([NodeJoined(at_s=1.0, node=node("n0"))])
    core.handle([NodeWarned(at_s=2.0, name="n0", until_s=None, why="new memory")])
    reborn = core_of()
    reborn.load(core.save())
    assert reborn.state.warned == core.state.warned and reborn.state.warned["n0"][0].why == "new memory"
    assert changed_nodes(reborn.state.cluster, [node("n0")], 3.0) == []
    reborn.handle([NodeJoined(at_s=1.0, node=node("n0"))])  # told again: its journal had it
    assert reborn.state.warned
    reborn.handle([NodeCleared(at_s=4.0, name="n0")])
    assert not reborn.state.warned and reborn.state.num_stale == 1
    core.handle([NodeWarned(at_s=5.0, name="n0")])
    core.handle([NodeJoined(at_s=6.0, node=node("n0", 8))])
    assert core.state.warned, "others may take and give back some of its devices"
    core.handle([NodeLost(at_s=7.0, name="n0")])
    assert not core.state.warned


def test_a_warning_stays_with_a_node_whose_host_is_kept_until_the_host_is_lost() -> None:
    """Other users had all its devices for a while, or its host was not reached."""
    core = core_of()
    core.handle([NodeJoined(at_s=1.0, node=node("n0")), NodeWarned(at_s=2.0, name="n0")])
    core.handle([NodeLost(at_s=3.0, name="n0", cause="taken", is_host_kept=True)])
    reborn = core_of()
    reborn.load(core.save())
    reborn.handle([NodeJoined(at_s=4.0, node=node("n0"))])
    assert reborn.state.warned == core.state.warned and reborn.state.warned
    reborn.handle([NodeLost(at_s=5.0, name="n0", is_host_kept=True), NodeLost(at_s=6.0, name="n0")])
    reborn.handle([NodeJoined(at_s=7.0, node=node("n0"))])
    assert not reborn.state.warned


def test_lost_nodes_are_remembered_with_the_cause_until_they_are_back() -> None:
    core = PlatformCore(core_of)
    names = [f"n{number}" for number in range(30)]
    core.handle([NodeJoined(at_s=1.0, node=node(name)) for name in names])
    core.handle([NodeLost(at_s=2.0, name="n0")])  # its owner has taken it away
    core.handle([NodeLost(at_s=3.0, name=name, cause="its lease is over") for name in names[1:]])
    assert [lost.name for lost in core.lost_nodes] == names[10:]
    core.handle([NodeJoined(at_s=4.0, node=node("n29"))])
    assert core.lost_nodes[-1].name == "n28" and core.lost_nodes[-1].cause == "its lease is over"


def test_a_job_that_waits_beside_enough_devices_says_that_no_size_of_it_fits() -> None:
    core = core_of()
    core.handle([NodeJoined(at_s=1.0, node=node("n0", 4))])
    core.handle([JobSubmitted(at_s=1.0, job_id="a", spec=spec(100, min_workers=3, max_workers=3))])
    assert core.views()[0].reason == (
        "waits for more nodes: it needs 3 devices, and there are 4: the policy gives powers of two, and none "
        "that it may have fits"
    )


def test_a_job_waits_for_the_first_node_and_says_so() -> None:
    core = core_of()
    core.handle([JobSubmitted(at_s=1.0, job_id="a", spec=spec(100, min_workers=4))])
    [view] = core.views()
    assert view.reason_code == "no_nodes" and "none has joined" in view.reason
    core.handle([NodeJoined(at_s=2.0, node=node("n0", 2))])
    [view] = core.views()
    assert view.reason == "waits for more nodes: it needs 4 devices, and there are 2"
    core.handle([NodeWarned(at_s=3.0, name="n0")])
    assert "are to be left" in core.views()[0].reason
    core.handle([NodeCleared(at_s=4.0, name="n0"), NodeJoined(at_s=4.0, node=node("n1", 2))])
    core.handle([NodeWarned(at_s=5.0, name="n0")])
    assert core.views()[0].reason_code == "profiling"
    [trial] = [command for command in core.under_way() if isinstance(command, ProfileJob)]
    assert trial.avoid == ("n0.0", "n0.1")


def test_a_change_whose_devices_another_user_took_is_no_failure_of_the_job() -> None:
    bench = Bench()
    bench.run("a", 2)
    bench.want(a=8)
    change = only(bench.say(Woke(at_s=bench.now_s)), Reconfigure)
    bench.say(NodeJoined(at_s=bench.now_s, node=node("n0", 4)))
    bench.want(a=4)
    again = only(bench.resize_failed(change.generation), Reconfigure)
    assert len(again.target.devices) == 4, "at once, with what is left"


# ---------------------------------------------------------------- ends that are known
def test_an_end_may_be_known_before_its_node_joins_and_outlasts_the_head() -> None:
    bench = Bench()
    bench.say(NodeEndKnown(at_s=bench.now_s, name="n1", until_s=500.0))
    bench.say(NodeJoined(at_s=bench.now_s, node=node("n1", 4)))
    assert bench.reborn().ends_s == {"n1": 500.0}
