"""Which kind of device a job gets that names several, or any."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import spec

from swell.core.kinds import KindLoad, choose, named_kinds
from swell.model.job import JobSpec
from swell.model.kind import ANY

KINDS = ("a100", "h100", "v100")
LOADS = st.builds(KindLoad, st.integers(0, 8), st.integers(0, 8), st.integers(0, 8))


def job(least: int = 1) -> JobSpec:
    return msgspec.structs.replace(spec(1000), kinds=KINDS, min_workers=least)


def chosen(request: JobSpec, **loads: KindLoad) -> str:
    return choose(tuple(loads), request, loads)


@given(st.fixed_dictionaries(dict.fromkeys(KINDS, LOADS)), st.integers(1, 4), st.permutations(KINDS))
def test_it_is_the_first_with_room_and_else_one_that_is_large_enough(
    loads: dict[str, KindLoad], least: int, named: list[str]
) -> None:
    kind = choose(named, job(least), loads)
    free = [one for one in named if loads[one].fits(least)]
    if free:
        assert kind == free[0]
    elif any(loads[one].num_devices >= least for one in KINDS):
        assert loads[kind].num_devices >= least, "it can run there at all"


def test_where_all_are_busy_it_is_the_one_with_the_shorter_queue() -> None:
    assert chosen(job(), a100=KindLoad(4, 0, 1), v100=KindLoad(2, 0, 2)) == "a100"
    assert chosen(job(), a100=KindLoad(4, 0, 2), v100=KindLoad(4, 0, 1)) == "v100"


def test_any_is_each_kind_that_there_is_unless_one_is_called_so() -> None:
    assert named_kinds((ANY,), ("v100", "a100")) == ("a100", "v100")
    assert named_kinds((ANY,), ("v100", ANY)) == (ANY,)
    assert named_kinds(("h100", "a100"), ("v100", "a100")) == ("a100",)
