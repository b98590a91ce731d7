"""Which kind of device a job gets that names several, or any."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.core.fakes import profile, spec
from tests.examples import pick

from swell.core.kind_choice import NUM_SCRIPTS, KindLoad, KindSpeeds, choose, named_kinds
from swell.model.job import JobSpec
from swell.model.kind import ANY

KINDS = ("a100", "h100", "v100")
LOADS = st.builds(KindLoad, st.integers(0, 8), st.integers(0, 8), st.integers(0, 8))
SPEEDS = st.dictionaries(pick(*KINDS), pick(0.5, 1.0, 2.0))
FOUND = st.dictionaries(pick(*KINDS), st.integers(2, 6))


def job(least: int = 1, **stated: float) -> JobSpec:
    return msgspec.structs.replace(spec(1000), kinds=KINDS, min_workers=least, kind_speeds=stated)


def chosen(request: JobSpec, speeds: KindSpeeds | None = None, /, **loads: KindLoad) -> str:
    kinds = tuple(loads)
    return choose(kinds, request, loads, (speeds or KindSpeeds()).of(request, kinds)).kind


def measured(kind: str, step_s: float, speeds: KindSpeeds | None = None) -> KindSpeeds:
    """As a trial run on this kind has measured the script of `job`."""
    speeds = speeds or KindSpeeds()
    speeds.learn(job(), kind, msgspec.structs.replace(profile(), compute_s={64: step_s}))
    return speeds


@given(
    st.fixed_dictionaries(dict.fromkeys(KINDS, LOADS)),
    SPEEDS,
    st.integers(1, 4),
    FOUND,
    st.permutations(KINDS),
)
def test_a_kind_with_room_comes_before_one_without_and_the_faster_before_the_slower(
    loads: dict[str, KindLoad], stated: dict[str, float], asked: int, found: dict[str, int], named: list[str]
) -> None:
    request = job(asked, **stated)
    least = {kind: max(asked, found.get(kind, 1)) for kind in KINDS}
    speeds = KindSpeeds().of(request, KINDS)
    kind = choose(named, request, loads, speeds, found).kind
    free = [one for one in KINDS if loads[one].fits(least[one])]
    assert kind in (free or KINDS)
    if free and all(one in stated for one in free):
        assert stated[kind] == max(stated[one] for one in free)
    if not free and any(loads[one].num_devices >= least[one] for one in KINDS):
        assert loads[kind].num_devices >= least[kind], "it can run there at all"


def test_devices_that_a_waiting_job_needs_are_not_free() -> None:
    assert chosen(job(), a100=KindLoad(4, 4, 4), v100=KindLoad(4, 4)) == "v100"


def test_where_all_are_busy_it_is_the_one_with_the_shorter_queue_and_then_the_faster_one() -> None:
    assert chosen(job(), a100=KindLoad(4, 0, 1), v100=KindLoad(2, 0, 2)) == "a100"
    assert chosen(job(a100=1.0, v100=2.0), a100=KindLoad(4), v100=KindLoad(2)) == "v100"


def test_what_trial_runs_measured_counts_before_what_the_owner_states() -> None:
    four = {"a100": KindLoad(4, 4), "v100": KindLoad(4, 4)}
    request = job(a100=4.0, v100=1.0)
    assert chosen(request, **four) == "a100"
    both = measured("v100", 0.1, measured("a100", 0.2))
    assert chosen(request, both, **four) == "v100"
    told = choose(KINDS[::2], request, four, both.of(request, KINDS)).why
    assert told == "the fastest that is free (measured), 2 times as fast as a100 (measured)"


def test_a_stated_speed_is_scaled_by_a_kind_of_which_both_are_known() -> None:
    request = job(a100=4.0, v100=1.0)
    found = measured("v100", 0.1).of(request, KINDS)
    assert found["v100"] == (640.0, True) and found["a100"] == (2560.0, False)
    assert "h100" not in found
    assert measured("v100", 0.1).of(job(), KINDS).keys() == {"v100"}, "nothing is stated"


def test_without_speeds_of_all_that_are_free_it_is_the_first_that_is_named() -> None:
    request = job(v100=2.0)
    assert chosen(request, a100=KindLoad(4, 4), v100=KindLoad(4, 4)) == "a100"


def test_speeds_of_the_latest_scripts_are_kept() -> None:
    speeds = measured("a100", 0.1)
    for number in range(NUM_SCRIPTS):
        speeds.learn(msgspec.structs.replace(job(), entry=f"/s{number}.py"), "a100", profile())
    assert len(speeds.measured) == NUM_SCRIPTS and not speeds.of(job(), KINDS)


def test_any_is_each_kind_that_there_is_unless_one_is_called_so() -> None:
    assert named_kinds((ANY,), ("v100", "a100")) == ("a100", "v100")
    assert named_kinds((ANY,), ("v100", ANY)) == (ANY,)
    assert named_kinds(("h100", "a100"), ("v100", "a100")) == ("a100",)
