"""A simulated run adds up: worked out again from its segments, and found out where it is falsified."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.oracles.simulated_run import Charge, differences
from tests.sim.worlds import head

from swell.sim.conditions import Conditions, set_up
from swell.sim.faults import FaultRates
from swell.sim.outcome import JobOutcome, SegmentLog
from swell.sim.profiles.built_in import load
from swell.sim.simulate import simulate
from swell.sim.traces.fill import FillRules, fill
from swell.sim.traces.generate import Demand, generate, poisson

POLICY = "elasticflow"
PLAIN = Conditions(nodes=2, devices_per_node=4)
#: Everything that can go otherwise than a plan says.
ROUGH = Conditions(
    nodes=2,
    devices_per_node=4,
    resize_cost="profile",
    noise=0.2,
    profile_error=0.2,
    node_mtbf_s=20_000.0,
    fault_rates=FaultRates(launch=0.1, resize=0.3, suspend=0.3, loss=0.3),
    seed=5,
)

#: Neighbours that take each other's cores, and more; pauses in which they do not.
CROWDED = Conditions(
    nodes=2,
    devices_per_node=4,
    cores=2.5,
    resize_cost="profile",
)


DEVICES = [f"n{node}.{device}" for node in range(2) for device in range(4)]
#: What a change costs on so few devices, by `--resize-cost changed`.
CHARGE = Charge(2.0, 2.0)


def run(conditions: Conditions, policy: str = POLICY, profiles: str = "law") -> tuple[JobOutcome, ...]:
    """Twenty jobs of a quarter of an hour each, every two minutes one."""
    trace = generate(poisson(1 / 120), 20, Demand(median_s=900.0, spread=1.0), seed=2)
    known = load(profiles)
    rules = FillRules(seed=1, soft_share=0.2, best_effort_share=0.2, buggy_share=0.1, cancelled_share=0.1)
    scenario = set_up(fill(trace, known, rules), known, conditions)
    return tuple(simulate(head(policy), scenario, log=SegmentLog()).jobs)


@pytest.mark.slow
@pytest.mark.parametrize("policy", [POLICY, "unified", "equal_share"])
@pytest.mark.parametrize(
    ("conditions", "charge"),
    [(PLAIN, CHARGE), (ROUGH, None), (CROWDED, None)],
    ids=["plain", "rough", "crowded"],
)
def test_a_run_adds_up(policy: str, conditions: Conditions, charge: Charge | None) -> None:
    jobs = run(conditions, policy)
    assert differences(jobs, DEVICES, charge) == []
    assert len(jobs) == 20 and sum(len(job.segments) for job in jobs) > 20


def test_a_run_whose_batches_are_open_adds_up() -> None:
    assert differences(run(PLAIN, "saxena", "saxena"), DEVICES) == []


@pytest.fixture(scope="module")
def sound() -> tuple[JobOutcome, ...]:
    return run(PLAIN)


def _first_training(job: JobOutcome, **changes: object) -> JobOutcome:
    at = next(number for number, one in enumerate(job.segments) if one.trains)
    changed = msgspec.structs.replace(job.segments[at], **changes)
    return msgspec.structs.replace(job, segments=(*job.segments[:at], changed, *job.segments[at + 1 :]))


LIES: dict[str, tuple[Callable[[JobOutcome], JobOutcome], str]] = {
    "more steps": (lambda job: _first_training(job, until_step=9_999_999.0), "by the record"),
    "no pause": (lambda job: _first_training(job, trains_from_s=0.0, from_s=0.0), "job "),
    "unknown device": (lambda job: _first_training(job, devices=("n9.9",)), "is none of the cluster"),
    "an earlier end": (lambda job: msgspec.structs.replace(job, end_s=1.0), "ended at"),
    "an earlier start": (lambda job: msgspec.structs.replace(job, start_s=1.0), "began to train at"),
    "another verdict": (lambda job: msgspec.structs.replace(job, is_kept=not job.is_kept), "denies it"),
    "fewer device-seconds": (lambda job: msgspec.structs.replace(job, device_s=1.0), "device-seconds by its"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_falsified_run_is_found_out(lie: str, sound: tuple[JobOutcome, ...]) -> None:
    change, part = LIES[lie]
    at = next(number for number, job in enumerate(sound) if job.phase == "succeeded" and job.deadline_s)
    jobs = [*sound[:at], change(sound[at]), *sound[at + 1 :]]
    assert differences(sound, DEVICES, charge=CHARGE) == []
    assert part in "\n".join(differences(jobs, DEVICES, charge=CHARGE))


def test_a_device_that_two_jobs_hold_is_found_out(sound: tuple[JobOutcome, ...]) -> None:
    jobs = [_first_training(job, devices=("n0.0",)) if job.segments else job for job in sound]
    assert "is held by jobs" in "\n".join(differences(jobs, DEVICES))
