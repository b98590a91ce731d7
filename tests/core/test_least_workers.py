"""A job of which one of few workers has too little memory never has so few."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.bench import Bench
from tests.core.driven_world import DrivenWorld
from tests.core.fakes import core_of, node, profile, spec
from tests.core.head import Head
from tests.examples import policies, share_of_examples

from swell.model.command import LaunchGang
from swell.model.event import JobProfiled
from swell.model.job import JobClass, JobSpec
from swell.placement.best_fit import BestFitPlacer
from swell.policies.registry import POLICIES
from swell.throughput.belief import FittedBelief

FEW = msgspec.structs.replace(profile(), least_workers=4)
JOBS = [
    spec(300, requested_workers=1),
    spec(300, max_workers=4, requested_workers=2),
    spec(200, job_class=JobClass.STRICT, deadline_s=500.0),
    spec(200, job_class=JobClass.SOFT, deadline_s=40.0),
]


@pytest.mark.slow
@pytest.mark.parametrize("policy", policies(POLICIES))
@settings(max_examples=share_of_examples(0.04), deadline=None)
@given(
    least=st.lists(st.sampled_from([2, 4, 1]), min_size=4, max_size=4),
    acts=st.lists(st.sampled_from(["run", "die", "fold", "join", "hold", "resume", "rank"]), max_size=6),
)
def test_no_policy_gives_a_job_fewer_workers_than_its_trial_run_found(
    policy: str, least: list[int], acts: list[str]
) -> None:
    world = DrivenWorld()
    head = Head(lambda: core_of(POLICIES[policy](), BestFitPlacer(), FittedBelief), world)
    world.join(node("n0", 4))
    for number, job in enumerate(JOBS):
        world.least_workers[f"j{number}"] = least[number]
        head.submit(f"j{number}", job)
    for act in acts:
        match act:
            case "run":
                head.run_for(5.0)
            case "die":
                head.die()
            case "fold":
                head.fold()
            case "join":
                world.join(node("n1", 4))
            case "hold":
                head.hold("j0")
            case "resume":
                head.resume("j0")
            case "rank":
                head.prioritize("j1", priority=1)
    head.resume("j0")
    head.run()
    for number, job in enumerate(JOBS):
        ended = head.ended[f"j{number}"]
        assert {workers for _, workers in ended.sizes} <= {0, *range(least[number], 9)}, job
        assert ended.least_by_memory == least[number]


def launched(bench: Bench, job: JobSpec | None = None) -> int:
    """Workers that it gets which its policy gives what `wanted` says."""
    bench.submit("a", job)
    commands = bench.say(JobProfiled(at_s=bench.now_s, job_id="a", profile=FEW))
    return sum(len(command.target.devices) for command in commands if isinstance(command, LaunchGang))


def test_what_its_owner_asks_for_counts_where_that_is_more() -> None:
    bench = Bench()
    bench.want(a=8)
    assert launched(bench, spec(1000, min_workers=8)) == 8
    [view] = bench.core.views()
    assert (view.least_by_memory, view.least_workers) == (4, 8)
    assert "memory" not in {story.code for _, story in bench.core.stories()}
