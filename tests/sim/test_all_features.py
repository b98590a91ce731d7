"""No policy ends a simulation: whatever meets in a log, each job ends or is refused with a reason."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import pick, policies, share_of_examples

from swell.model.job import Phase
from swell.model.quota import Quota
from swell.policies.registry import POLICIES, keeps_quotas
from swell.sim.conditions import SETTINGS, Conditions, set_up
from swell.sim.faults import FaultRates
from swell.sim.outcome import SimOutcome
from swell.sim.pool import NodeInterval, Pool
from swell.sim.profiles.built_in import load
from swell.sim.simulate import simulate
from swell.sim.traces.entry import Trace, TraceJob
from swell.sim.traces.fill import FillRules, fill
from swell_papers.variants import VARIANTS, variant_core, variant_policy

#: Batches that the profiles know of each model.
BATCHES = {"alexnet": 32, "resnet50": 32, "vgg11_bn": 128, "alexnet-food101": 128}
#: They choose a batch for each job once; it may need more workers than nodes or a quota leave it in the end.
ONE_BATCH = ("saxena_max_batch", "saxena_random_batch")
LINES = sorted({*POLICIES, *VARIANTS})
#: Ten times less and more than these.
STEPS, APART_S = 4_000, 60.0


@st.composite
def jobs(draw: st.DrawFn) -> tuple[TraceJob, ...]:
    """Of all classes; some with an open batch, and of several tenants."""
    drawn, at_s = [], 0.0
    for number in range(draw(st.integers(1, 6))):
        at_s += APART_S * draw(pick(0.0, 0.1, 1.0, 10.0))
        model = draw(pick(*BATCHES))
        batch, is_open = BATCHES[model], draw(st.booleans())
        promise = draw(pick("strict", "soft", "best effort"))
        drawn.append(
            TraceJob(
                id=f"job-{number}",
                submit_s=at_s,
                num_devices=draw(pick(1, 2, 4)),
                model=model,
                global_batch=batch,
                min_batch=batch if is_open else None,
                max_batch=batch * draw(pick(2, 8)) if is_open else None,
                num_steps=round(STEPS * draw(pick(0.1, 1.0, 10.0))),
                deadline_s=None
                if promise == "best effort"
                else at_s + 300.0 * draw(pick(0.2, 1.0, 5.0, 40.0)),
                is_best_effort=promise == "best effort",
                is_soft=promise == "soft",
                tenant=draw(pick("", "a", "b")),
                cores_per_worker=draw(pick(None, 0.5, 2.0)),
                priority=draw(pick(None, None, 3)),
                weight=draw(pick(None, None, 2.5)),
                min_devices=draw(pick(None, None, 2)) if batch == 32 else None,
            )
        )
    return tuple(drawn)


@st.composite
def conditions(draw: st.DrawFn, tenants: frozenset[str]) -> Conditions:
    """Borrowed nodes that leave while jobs have them, quotas, noise, failures of nodes and of changes.

    Args:
        tenants: that may have a quota.
    """
    ends_s = (100.0, 300.0, 3000.0, math.inf)
    lent = [
        NodeInterval(f"lent-{number}", 20.0 * number, 20.0 * number + draw(pick(*ends_s)), draw(pick(1, 2)))
        for number in range(draw(st.integers(0, 4)))
    ]
    rate = draw(pick(0.0, 0.0, 0.2))
    return Conditions(
        nodes=draw(pick(1, 2)),
        devices_per_node=draw(pick(1, 2, 4)),
        resize_cost=draw(pick("changed", "profile", "none")),
        noise=draw(pick(0.0, 0.2)),
        profile_error=draw(pick(0.0, 0.2)),
        node_mtbf_s=draw(pick(None, 3000.0)),
        node_mttr_s=200.0,
        fault_rates=FaultRates(trial=rate, launch=rate, resize=rate, suspend=rate, loss=rate, warning=rate),
        pool=Pool(tuple(lent), "drawn") if lent else None,
        quotas={name: Quota(devices=draw(pick(1, 2))) for name in sorted(tenants) if draw(st.booleans())},
        cores=draw(pick(None, 2.0)),
        seed=draw(st.integers(0, 9)),
    )


def run(policy: str, trace: tuple[TraceJob, ...], met: Conditions) -> SimOutcome:
    profiles = load("saxena")
    workload = fill(Trace(jobs=trace, format="plain", source="drawn"), profiles, FillRules())
    return simulate(variant_core(policy, SETTINGS), set_up(workload, profiles, met))


@pytest.mark.slow
@pytest.mark.parametrize("policy", policies(LINES))
@settings(max_examples=share_of_examples(0.1))
@given(st.data())
def test_each_job_ends_or_is_refused_with_a_reason(policy: str, data: st.DataObject) -> None:
    trace = data.draw(jobs())
    limited = frozenset(one.tenant for one in trace if one.tenant and keeps_quotas(variant_policy(policy)))
    met = data.draw(conditions(limited))
    most = {name: quota.devices or math.inf for name, quota in met.quotas.items()}
    num_owned = met.nodes * met.devices_per_node  # lent ones leave in the end
    waiting = {
        one.id
        for one in trace
        if (one.min_devices or 1) > min(num_owned, most.get(one.tenant or "", math.inf))
    }
    for job in run(policy, trace, met).jobs:
        is_waiting = job.phase is Phase.QUEUED and (policy in ONE_BATCH or job.id in waiting)
        assert job.phase.is_end or (is_waiting and job.why)
        assert job.phase is not Phase.REJECTED or job.why


@pytest.mark.slow
@pytest.mark.parametrize("policy", policies(LINES))
@settings(max_examples=share_of_examples(0.05))
@given(st.data())
def test_no_job_has_fewer_devices_than_its_state_needs(policy: str, data: st.DataObject) -> None:
    """Where nothing fails. One that needs more than there are is refused with the number."""
    least = {"a": 2, "b": data.draw(pick(1, 3)), "c": 4, "d": 5}
    trace = [
        TraceJob(
            id=name,
            submit_s=60.0 * number,
            num_devices=data.draw(pick(1, 4)),
            model="resnet50",
            global_batch=BATCHES["resnet50"],
            num_steps=STEPS,
            deadline_s=data.draw(pick(None, 3000.0)),
            min_devices=num,
        )
        for number, (name, num) in enumerate(least.items())
    ]
    outcome = run(policy, tuple(trace), Conditions(nodes=2, devices_per_node=2))
    for job in outcome.jobs:
        assert all(size == 0 or size >= least[job.id] for _, size in job.sizes)
        if job.id == "d":
            assert job.phase is Phase.REJECTED and "needs 5 devices" in job.why
