"""Figures of parts of the jobs add up to those of the whole; fairness is what Jain says it is."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.worlds import job, run

from swell.model.job import JobClass, Phase
from swell.sim.job import SimJob
from swell.sim.metrics import LEAST_DEADLINES, by_size, by_tenant, fairness, metrics_of
from swell.sim.outcome import JobOutcome


def outcome(tenant: str, is_kept: bool | None = True, requested_devices: int = 1) -> JobOutcome:
    return JobOutcome(
        id="j",
        model="m",
        tenant=tenant,
        requested_devices=requested_devices,
        job_class=JobClass.BEST_EFFORT if is_kept is None else JobClass.STRICT,
        submit_s=0.0,
        deadline_s=None if is_kept is None else 10.0,
        phase=Phase.REJECTED if is_kept is False else Phase.SUCCEEDED,
        is_promised=bool(is_kept),
        counter_offer_s=None,
        start_s=0.0,
        end_s=5.0,
        is_kept=is_kept,
        is_buggy=False,
        num_resizes=0,
        device_s=0.0 if is_kept is False else 3600.0,
        single_device_s=1.0,
        sizes=(),
        why="",
    )


def met(tenant: str, num_met: int, num: int = LEAST_DEADLINES) -> list[JobOutcome]:
    return [outcome(tenant, number < num_met) for number in range(num)]


outcomes = st.lists(
    st.builds(
        outcome,
        st.sampled_from(["a", "b", "c", ""]),
        st.sampled_from([True, False, None]),
        requested_devices=st.sampled_from([None, 1, 2, 3, 4, 7, 64]),
    ),
    max_size=40,
)


@given(outcomes)
def test_groups_add_up(jobs: list[JobOutcome]) -> None:
    sized = [one for one in jobs if one.requested_devices is not None]
    for groups, members in ((by_tenant(jobs), jobs), (by_size(jobs), sized)):
        if not groups:
            continue
        assert sum(group.jobs for group in groups) == len(members)
        facing = [one for one in members if one.deadline_s is not None]
        assert sum(group.deadlines for group in groups) == len(facing)
        kept = sum((group.deadline_satisfaction or 0.0) * group.deadlines for group in groups)
        assert kept == pytest.approx(sum(bool(one.is_kept) for one in facing))
        used_h = sum(group.used_device_h for group in groups)
        assert used_h == pytest.approx(sum(one.device_s for one in members) / 3600)
        assert all(group.promised_device_h <= group.used_device_h + 1e-9 for group in groups)
    assert len({one.tenant for one in jobs}) > 1 or by_tenant(jobs) == ()


@given(st.lists(st.integers(0, 10), min_size=2, max_size=6))
def test_jains_index_is_between_one_over_all_and_one(counts: list[int]) -> None:
    found = fairness([one for number, count in enumerate(counts) for one in met(f"t{number}", count)])
    assert found is not None and found.tenants == len(counts)
    assert found.worst_satisfaction == min(counts) / LEAST_DEADLINES
    if not any(counts):
        assert found.jain_index is None
        return
    assert found.jain_index is not None
    assert 1 / len(counts) - 1e-9 <= found.jain_index <= 1 + 1e-9
    assert (found.jain_index > 1 - 1e-9) == (len(set(counts)) == 1)


def _of(tenant: str, made: SimJob) -> SimJob:
    spec = msgspec.structs.replace(made.spec, tenant=tenant)
    return dataclasses.replace(made, spec=spec, requested_devices=2)


def test_a_run_tells_of_tenants_and_who_comes_later_is_served_too() -> None:
    """One tenant asks for twice what there is; a little later the other one does, who was there before."""

    def many(tenant: str, at_s: float, num: int, steps: int) -> list[SimJob]:
        names = [f"{tenant}-{at_s:g}-{number:02}" for number in range(num)]
        alone = {1: 1.0}
        return [_of(tenant, job(name, at_s, steps, at_s + 1.2 * steps, alone)) for name in names]

    early = _of("b", job("early", steps=10, deadline_s=100.0, rates={1: 1.0}))
    jobs = [early, *many("a", 20.0, 16, 1000), *many("b", 30.0, 15, 1000)]
    rules = ({"elasticflow.promises_by": rule} for rule in ("number", "tenants"))
    plain, fair = (metrics_of(run(jobs, parameters=rule)) for rule in rules)
    assert [group.name for group in plain.by_tenant] == ["a", "b"]
    assert [group.deadline_satisfaction for group in plain.by_tenant] == [8 / 16, 1 / 16]
    assert [group.deadline_satisfaction for group in fair.by_tenant] == [4 / 16, 5 / 16]
    assert plain.deadline_satisfaction == fair.deadline_satisfaction == 9 / 32
    assert plain.fairness is not None and fair.fairness is not None
    assert (plain.fairness.worst_tenant, fair.fairness.worst_tenant) == ("b", "a")
    assert [group.name for group in fair.by_size] == ["2"] and fair.by_size[0].jobs == 32
