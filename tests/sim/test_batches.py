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
from swell.model.event import AnyEvent, GangEnded, GangStarted, NodeJoined, NodeLost, Outcome, ResizeFailed
from swell.model.job import Phase
from swell.model.target import Configuration, Target
from swell.sim.agenda import Agenda
from swell.sim.change_cost import change_cost
from swell.sim.faults import FaultRates, InjectedFaults
from swell.sim.gang import Training
from swell.sim.gangs import GangTimings, SimGangs
from swell.sim.job import SimJob
from swell.sim.jobs import jobs_of
from swell.sim.outcome import SimOutcome
from swell.sim.pool import IdleInterval, Pool
from swell.sim.profiles.load import load
from swell.sim.profiles.profile_set import ProfileSet
from swell.sim.profiles.saxena import saxena
from swell.sim.simulate import Scenario, cluster, simulate
from swell.sim.traces.entry import Trace, TraceJob
from swell.sim.traces.fill import fill
from swell.sim.traces.rules import FillRules

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


def test_a_batch_fits_the_size_and_grows_with_size_and_noise(profiles: ProfileSet) -> None:
    """One worker begins with the smallest; each has 8 samples at least, the fewest that were measured."""
    told: list[tuple[float, int]] = []
    (job,) = run(some(profiles), "pollux", told=told).jobs
    batches = [batch for _, batch in told]
    assert batches[0] == 16 and batches == sorted(batches) and batches[-1] > 32
    for at_s, batch in told:
        workers = [size for since_s, size in job.sizes if since_s <= at_s][-1]
        assert batch >= 8 * workers


def test_a_pause_is_told_although_the_batch_changes_in_it(profiles: ProfileSet) -> None:
    outcome = run(some(profiles, 3), "pollux", cost="5")
    assert all(job.phase is Phase.SUCCEEDED for job in outcome.jobs)
    assert sum(job.num_resizes for job in outcome.jobs) > 0


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


def test_a_head_that_is_folded_before_each_turn_decides_the_same(profiles: ProfileSet) -> None:
    """Batches, noise scales and what else matters of them survive a restart."""
    plain, folded = (run(some(profiles, 4), "pollux", cost="5", is_folded=fold) for fold in (False, True))
    assert [(job.end_s, job.sizes) for job in folded.jobs] == [(job.end_s, job.sizes) for job in plain.jobs]


def test_trial_runs_that_are_off_are_off_at_every_batch(profiles: ProfileSet) -> None:
    (true,), (off,) = some(profiles), some(profiles, profile_error_share=0.3)
    assert true.profile.batches is not None and off.profile.batches is not None
    assert off.profile.batches.step_s != true.profile.batches.step_s
    (job,) = run([off], "pollux").jobs
    assert job.phase is Phase.SUCCEEDED


def test_a_gang_whose_change_fails_trains_on_as_it_was(profiles: ProfileSet) -> None:
    """So the head believes: neither size nor batch are others."""
    (job,), told = some(profiles), list[AnyEvent]()
    gangs = SimGangs(
        change_cost("10", 8), GangTimings(), Agenda(), told.append, InjectedFaults(FaultRates(resize=1.0))
    )
    wider = Configuration(global_batch=64)
    one, two = Target(devices=("n0.0",)), Target(devices=("n0.0", "n0.1"), configuration=wider)
    launch = LaunchGang(job_id=job.id, generation=1, target=one, spec=job.spec, total_steps=None)
    gangs.launch(job, launch, frozenset(), 0.0)
    gangs.started(job.id, 1, 0.0)
    for generation, target in (
        (2, two),
        (3, Target(devices=one.devices, configuration=wider)),
    ):
        gangs.reconfigure(Reconfigure(job_id=job.id, generation=generation, target=target), frozenset(), 20.0)
        gangs.changed(job.id, generation, 30.0)
        assert isinstance(told[-1], ResizeFailed) and told[-1].generation == generation
        training = gangs.training[job.id]
        assert training.target == one and training.rate_per_s == training.true_rate_per_s


def alexnet() -> list[SimJob]:
    """One job, of which one worker can have a batch of 32 alone, and four one of 128."""
    profiles = load("saxena")
    job = TraceJob(
        id="a", submit_s=0.0, num_devices=2, model="alexnet", global_batch=32, num_steps=20_000, max_batch=256
    )
    workload = fill(Trace(jobs=(job,), format="plain", source="t"), profiles, RULES)
    return list(jobs_of(workload, profiles, "gpu", 0.0, 0.0, 0))


@pytest.mark.parametrize("policy", ["saxena", "pollux"])
def test_workers_that_are_left_take_a_batch_that_they_can_have(policy: str) -> None:
    """Of four, three are on nodes that leave."""
    pool = Pool(tuple(IdleInterval(name, 0.0, 300.0) for name in "abc"), "a log", kind="gpu")
    nodes = cluster(1, 1, "gpu")
    scenario = Scenario(nodes=nodes, jobs=alexnet(), cost=change_cost("none", 4), pool=pool)
    (only,) = simulate(head(policy), scenario).jobs
    assert only.phase is Phase.SUCCEEDED
    assert max(workers for _, workers in only.sizes) == 4


def test_a_gang_that_is_told_an_impossible_batch_is_lost() -> None:
    """As one that runs out of memory would be; the head is told why."""
    (job,), told = alexnet(), list[AnyEvent]()
    gangs = SimGangs(change_cost("none", 8), GangTimings(), Agenda(), told.append, InjectedFaults())
    target = Target(devices=("n0.0",), configuration=Configuration(global_batch=256))
    command = LaunchGang(job_id=job.id, generation=1, target=target, spec=job.spec, total_steps=job.num_steps)
    gangs.launch(job, command, frozenset(), 0.0)
    gangs.started(job.id, 1, 0.0)
    started, ended = told
    assert isinstance(started, GangStarted) and isinstance(ended, GangEnded)
    assert (ended.outcome, ended.message) == (Outcome.LOST, "1 worker cannot have a batch of 256")


def test_a_kind_that_is_twice_as_fast_is_so_at_every_batch() -> None:
    """As its trial run says there: a step of 64 samples takes half of the time."""
    trace = Trace(jobs=(TraceJob(id="a", submit_s=0.0, model="resnet50"),), format="plain", source="t")
    workload = fill(trace, saxena(), RULES)
    (only,) = jobs_of(workload, saxena(), "", kind_speeds={"old": 1.0, "new": 2.0})
    rates = {}
    for kind in ("old", "new"):
        gang = Training(only.on(kind), 1, ("d0", "d1"), configuration=Configuration(global_batch=64))
        assert gang.job.profile.batches is not None
        assert gang.true_rate_per_s == pytest.approx(2.0 / gang.job.profile.batches.step_s[64][2])
        rates[kind] = gang.true_rate_per_s
    assert rates["new"] == pytest.approx(2.0 * rates["old"])
