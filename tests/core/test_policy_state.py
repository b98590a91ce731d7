"""A policy with a memory, a period and a parameter: what it decides is the same whatever befalls the head."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.driven_world import ALL_FAULTS, DrivenWorld
from tests.core.fakes import PowerBelief, core_of, node, profile, spec
from tests.core.head import FATES, Head
from tests.examples import share_of_examples
from tests.policies.guide import from_the_guide

from swell.core.core import Core
from swell.core.core_settings import CoreSettings
from swell.core.last_plan import InvalidMemory, PolicyState
from swell.core.planner import Planner
from swell.core.state import read_saved
from swell.model.command import WakeAt
from swell.model.event import JobProfiled, JobSubmitted, NodeJoined, Opened, Woke
from swell.model.plan import Allocation
from swell.model.snapshot import Snapshot
from swell.placement.best_fit import BestFitPlacer
from swell.policies.policy import Period, Policy
from swell.policies.unpromised import Fifo


class Diary(Policy):
    """Gives as `Fifo` does, and writes down what it has seen: each decision depends on all before it."""

    name = "diary"
    period_s: Period = 3.0

    def decide(self, snapshot: Snapshot) -> Allocation:
        seen = [*snapshot.memory.get("seen", []), [snapshot.now_s, snapshot.num_jobs, snapshot.is_due]]
        answer = Fifo().decide(snapshot)
        wake_s = snapshot.now_s + 0.5 + len(seen) % 3 if len(snapshot.options.workers) else math.inf
        return replace(answer, memory={"seen": seen[-20:]}, wake_s=wake_s)


def remembering(policy: str) -> Core:
    """A core that may be switched between policies with a memory of their own."""
    policies = {one.name: one for one in (Diary(), *from_the_guide())}
    planner = Planner(policies[policy], BestFitPlacer(), policies)
    return Core(planner, PowerBelief(), CoreSettings(min_hold_s=2.0, report_plan_s=1.0))


@pytest.mark.slow
@settings(max_examples=share_of_examples(0.1), deadline=None)
@given(
    st.integers(0, 2**20),
    st.sampled_from(["diary", "periodic_shares"]),
    st.lists(st.sampled_from([*FATES, "switch"]), max_size=40),
)
def test_kills_folds_and_replays_lead_to_the_same_commands(seed: int, policy: str, fates: list[str]) -> None:
    """`Head` holds every life to a twin that never dies, command by command and state by state."""
    world = DrivenWorld(seed, ALL_FAULTS)
    head = Head(lambda: remembering(policy), world)
    world.join(node("n0", 4))
    for number in range(5):
        head.submit(f"job{number}", spec(40 + 30 * number))
    for fate in fates:
        if not head.undergo(fate):
            other = "diary" if policy == "periodic_shares" else "periodic_shares"
            world.say(Opened(at_s=world.now_s, policy=other))
    world.calm_down()
    world.join(node("n0", 4))
    head.run()
    assert len(head.ended) == 5 and not world.gangs


def told(core: Core) -> PolicyState:
    return read_saved(core.save()).policy_state


def test_periods_begin_at_whole_multiples_and_end_with_the_last_job() -> None:
    core = core_of(Diary())
    core.handle([NodeJoined(at_s=100.0, node=node("n0", 4))])
    core.handle([JobSubmitted(at_s=100.5, job_id="a", spec=spec(100))])
    commands = core.handle([JobProfiled(at_s=101.0, job_id="a", profile=profile())])
    state = told(core)
    assert state.due_s == 102.0 and state.memory["seen"][-1][2] is False  # the first was at 100
    assert [command.at_s for command in commands if isinstance(command, WakeAt)] == [pytest.approx(102.0)]
    core.handle([Woke(at_s=102.0)])
    assert told(core).memory["seen"][-1] == [102.0, 1, True] and told(core).due_s == 105.0


@pytest.mark.parametrize(
    ("memory", "error"),
    [
        ({"workers": np.int64(3)}, r"policy 'one' cannot be kept \(.*int64.*\); use words as keys"),
        ({"turns": {3: 1}}, r"another one after a restart: 'turns' holds \{3: 1\}, and JSON gives back"),
        ({"pair": (1, 2)}, r"'pair' holds \(1, 2\), and JSON gives back \[1, 2\]"),
        ({"rate": math.nan}, "'rate' holds nan, and JSON gives back None"),
    ],
)
def test_a_first_memory_that_would_not_be_the_same_is_an_error_at_once(
    memory: dict[str, object], error: str
) -> None:
    state = PolicyState(name="one")
    with pytest.raises(InvalidMemory, match=error):
        state.end(memory, math.inf)
