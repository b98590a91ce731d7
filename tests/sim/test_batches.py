"""Batches that change while a simulated job trains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick
from tests.sim.profiles.test_pollux import PLACEMENTS, RUNS, SCALABILITY
from tests.sim.worlds import head

from swell.model.command import AnyCommand, LaunchGang, Reconfigure
from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell.model.job import Phase
from swell.sim.change_cost import change_cost
from swell.sim.job import SimJob, jobs_of
from swell.sim.outcome import SimOutcome
from swell.sim.profiles.built_in import load
from swell.sim.profiles.curve import ProfileSet
from swell.sim.simulate import cluster, simulate
from swell.sim.traces.entry import Trace, TraceJob
from swell.sim.traces.fill import FillRules, fill
from swell.sim.world import Scenario

RULES = FillRules(deadlines="none")
NODES = cluster(2, 4, "gpu")
#: Long enough for a gang to double until it has all devices.
LONG = {batch: text.replace("\n100,", "\n2000,").replace("\n300,", "\n6000,") for batch, text in RUNS.items()}


@pytest.fixture
def profiles(tmp_path: Path) -> ProfileSet:
    model = tmp_path / "net"
    model.mkdir()
    (model / "placements.csv").write_text(PLACEMENTS)
    (model / "scalability.csv").write_text(SCALABILITY)
    for batch, text in LONG.items():
        (model / f"validation-{batch}.csv").write_text(text)
    return load(str(tmp_path))


def some(
    profiles: ProfileSet,
    num: int = 1,
    rules: FillRules = RULES,
    noise_share: float = 0.0,
    profile_error_share: float = 0.0,
    seed: int = 0,
) -> list[SimJob]:
    jobs = tuple(
        TraceJob(
            id=f"job-{row}",
            submit_s=10.0 * row,
            num_devices=2,
            model="net",
            global_batch=32,
        )
        for row in range(num)
    )
    workload = fill(Trace(jobs=jobs, format="plain", source="t"), profiles, rules)
    return list(jobs_of(workload, profiles, "gpu", noise_share, profile_error_share, seed))


def run(
    jobs: list[SimJob],
    policy: str,
    cost: str = "none",
    told: list[tuple[float, int]] | None = None,
    is_folded: bool = False,
    others: Sequence[AnyEvent] = (),
) -> SimOutcome:
    """On two nodes of four; `told` hears each batch that a gang is given, and when.

    Args:
        is_folded: before each turn the head forgets all but what a fold of the journal keeps.
    """
    scenario = Scenario(nodes=NODES, jobs=jobs, cost=change_cost(cost, 8), others=others)
    core, heard = head(policy, min_hold_s=0.0), [] if told is None else told
    handle = core.handle

    def listening(batch: Sequence[AnyEvent]) -> list[AnyCommand]:
        if is_folded:
            core.load(core.save())
        commands = handle(batch)
        gangs = [each for each in commands if isinstance(each, LaunchGang | Reconfigure)]
        heard.extend((core.now_s, gang.target.configuration.global_batch or 32) for gang in gangs)
        return commands

    core.handle = listening  # type: ignore[method-assign]
    return simulate(core, scenario)


def test_a_job_of_a_log_has_batches_of_its_range_only(profiles: ProfileSet) -> None:
    job = TraceJob(
        id="a", submit_s=0.0, num_devices=2, model="net", global_batch=32, min_batch=24, max_batch=40
    )
    workload = fill(Trace(jobs=(job,), format="plain", source="t"), profiles, RULES)
    simulated = list(jobs_of(workload, profiles, "gpu"))
    assert (simulated[0].spec.min_batch, simulated[0].spec.max_batch) == (24, 40)
    told: list[tuple[float, int]] = []
    (ended,) = run(simulated, "pollux", told=told).jobs
    batches = {batch for _, batch in told}
    assert ended.phase is Phase.SUCCEEDED and batches != {32} and min(batches) >= 24 and max(batches) <= 40


def test_pollux_chooses_batches_and_each_epoch_is_as_long_as_it_is_at_them(profiles: ProfileSet) -> None:
    """The end is where the steps of each batch, size and epoch, worked out piece by piece, add up to all."""
    (simulated,) = some(profiles)
    truth = simulated.batches
    assert truth is not None
    told: list[tuple[float, int]] = []
    (job,) = run([simulated], "pollux", told=told).jobs
    assert job.phase is Phase.SUCCEEDED and job.end_s is not None
    assert [workers for _, workers in job.sizes if workers] == [1, 2, 4]  # which eight do not beat
    done, now_s = 0.0, 0.0
    times_s = sorted({*(at_s for at_s, _ in job.sizes), *(at_s for at_s, _ in told)})
    for next_s in [*times_s[1:], job.end_s]:
        workers = [size for at_s, size in job.sizes if at_s <= now_s][-1]
        batch = [chosen for at_s, chosen in told if at_s <= now_s][-1]
        while now_s < next_s:
            rate_per_s = truth.rate_per_s(workers, batch, done)
            turn_s = now_s + (truth.epoch_end(done) - done) / rate_per_s
            if turn_s <= next_s:
                done, now_s = truth.epoch_end(done), turn_s
            else:
                done, now_s = done + (next_s - now_s) * rate_per_s, next_s
    assert done == pytest.approx(simulated.num_steps)


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.floats(0.0, 900.0), st.floats(1.0, 200.0)), max_size=3),
    st.sampled_from(["none", "30"]),
)
@settings(
    max_examples=fewer_if_quick(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_batches_outlive_nodes(profiles: ProfileSet, faults: list[tuple[float, float]], cost: str) -> None:
    """Whatever is lost and comes back, jobs end, and batches always fit: no job stands still for ever."""
    downs: list[AnyEvent] = [NodeLost(at_s=at_s, name="n0") for at_s, _ in faults]
    ups: list[AnyEvent] = [NodeJoined(at_s=at_s + lasts_s, node=NODES[0]) for at_s, lasts_s in faults]
    outcome = run(
        some(profiles, 3), "pollux", cost=cost, others=sorted(downs + ups, key=lambda event: event.at_s)
    )
    assert all(job.phase is Phase.SUCCEEDED for job in outcome.jobs)
