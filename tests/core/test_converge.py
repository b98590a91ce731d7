"""From what is to what is wanted, without giving anything away before it is free."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import spec
from tests.core.records import steady

from swell.core.converge import Converger
from swell.core.gang import NO_GANG
from swell.core.progress import JobProgress
from swell.core.record import JobRecord
from swell.core.state import HeadState
from swell.model.command import AnyCommand, Reconfigure, SuspendGang
from swell.model.job import Phase
from swell.model.options import Domain
from swell.model.plan import JobPlan
from swell.model.target import Target
from swell.throughput.belief import FittedBelief

DEVICES = tuple(f"d{number}" for number in range(8))


def running(job_id: str, *devices: str) -> JobRecord:
    return JobRecord(
        id=job_id,
        spec=spec(),
        submitted_s=0.0,
        progress=JobProgress(total_steps=100.0),
        generation=1,
        gang=steady(*devices),
    )


def waiting(job_id: str) -> JobRecord:
    return JobRecord(id=job_id, spec=spec(), submitted_s=0.0, progress=JobProgress(total_steps=100.0))


def why() -> str:
    return "is given some"


def converge(records: Sequence[JobRecord], **devices: tuple[str, ...]) -> list[AnyCommand]:
    plans = {job: JobPlan(target=Target(devices=want), why=why) for job, want in devices.items()}
    state = HeadState(belief=FittedBelief(), domain=Domain())
    state.now_s, state.devices = 10.0, frozenset(DEVICES)
    state.records = {record.id: record for record in records}
    state.index.update(records)
    return Converger(state).run(plans)


def test_two_gangs_that_want_each_others_devices_do_not_wait_for_ever() -> None:
    """The smaller one steps aside, to its checkpoint; the first of equals by name."""
    a, b = running("a", "d0", "d1"), running("b", "d2", "d3")
    assert converge([a, b], a=("d2", "d3"), b=("d0", "d1")) == [SuspendGang(job_id="a", generation=2)]
    assert a.phase is Phase.STOPPING
    assert converge([a, b], a=("d2", "d3"), b=("d0", "d1")) == [], "it is on its way already"


def test_a_gang_that_is_promised_something_does_not_step_aside_for_one_that_is_not() -> None:
    promised, larger = running("a", "d0"), running("b", "d2", "d3", "d4", "d5")
    promised.admission.is_promised = True
    wanted = {"a": ("d2", "d3"), "b": ("d0", "d1", "d6", "d7")}
    assert converge([promised, larger], **wanted) == [SuspendGang(job_id="b", generation=2)]
    larger.admission.is_promised = True
    larger.become(larger.gang.save_failed())
    assert converge([promised, larger], **wanted) == [SuspendGang(job_id="a", generation=2)]


def test_a_gang_that_shrinks_waits_for_nobody_and_shrinks_where_it_is() -> None:
    """The other one would have to leave d0 first, and waits for d2: it goes there, and comes back later."""
    a, b = running("a", "d0"), running("b", "d2", "d3", "d4", "d5")
    [shrink] = converge([a, b], a=("d2", "d3"), b=("d0",))
    assert shrink == Reconfigure(job_id="b", generation=2, target=Target(devices=("d4",)))


@given(
    held=st.integers(2, 8),
    wanted=st.lists(st.sampled_from(DEVICES), min_size=1, max_size=7, unique=True),
    others=st.sets(st.sampled_from(DEVICES)),
)
def test_what_a_shrinking_gang_keeps(held: int, wanted: list[str], others: set[str]) -> None:
    """Of its own what it is to have anyway, then what no other is to have; as many as it is to have."""
    own = DEVICES[:held]
    wanted = wanted[: held - 1]
    blocker = [device for device in wanted if device not in own]
    records = [running("a", *own), *([running("b", *blocker)] if blocker else [])]
    plans = {"a": tuple(wanted), "c": tuple(sorted(others - set(wanted)))}
    [shrink] = converge([*records, waiting("c")], **plans)[:1]
    assert isinstance(shrink, Reconfigure) and shrink.job_id == "a"
    kept = shrink.target.devices
    if not blocker:
        assert set(kept) == set(wanted)
        return
    assert len(kept) == len(wanted) and set(kept) <= set(own)
    assert set(kept) >= set(wanted) & set(own)
    unwanted = set(own) - others - set(wanted)
    assert not (set(kept) - set(wanted)) & others or set(kept) >= unwanted


PLACES = st.permutations(DEVICES).flatmap(
    lambda order: st.lists(st.integers(0, 3), min_size=4, max_size=4).map(lambda sizes: _cut(order, sizes))
)


def _cut(order: list[str], sizes: list[int]) -> dict[str, tuple[str, ...]]:
    """Devices for jobs a to d, none twice."""
    rest = iter(order)
    return {job: tuple(islice(rest, size)) for job, size in zip("abcd", sizes, strict=True)}


@given(PLACES, PLACES)
def test_any_plan_is_reached_from_anywhere(
    held: dict[str, tuple[str, ...]], wanted: dict[str, tuple[str, ...]]
) -> None:
    """As long as commands are carried out, each pass comes closer; nothing is ever held twice."""
    records = [running(job, *devices) if devices else waiting(job) for job, devices in held.items()]
    for _ in range(12):
        commands = converge(records, **wanted)
        in_use = [device for record in records for device in record.gang.held]
        assert len(in_use) == len(set(in_use))
        if not commands:
            break
        for record in records:
            obey(record)
    assert {record.id: set(record.gang.held) for record in records} == {j: set(d) for j, d in wanted.items()}


def obey(record: JobRecord) -> None:
    """The machines have done what was under way."""
    if record.phase is Phase.STOPPING:
        record.become(NO_GANG)
    elif record.phase is Phase.STARTING:
        record.become(record.gang.started(record.generation))
    elif record.gang.awaits_change:
        record.become(record.gang.changed(record.generation))
