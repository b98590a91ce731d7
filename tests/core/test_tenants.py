"""Numbers of tenants: one each, the same after a restart, and never more than there were at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.core.tenants import MEMORY_S, Tenants
from swell.model.coding import decoder, encode
from swell.policies.elasticflow.demand import NO_TENANT, still_its

#: (a tenant of whom a job comes or, the second time, goes; seconds before that)
visits = st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0.0, MEMORY_S)), max_size=60)


@given(visits)
def test_who_has_jobs_has_a_number_of_their_own_and_the_others_for_a_day(
    steps: list[tuple[str, float]],
) -> None:
    tenants, there, left_s, now_s = Tenants(), set[str](), dict[str, float](), 0.0
    codes: dict[str, int] = {}
    for name, wait_s in steps:
        now_s += wait_s
        tenants.forget(now_s)
        known = there | {one for one, at_s in left_s.items() if now_s - at_s <= MEMORY_S}
        assert tenants.codes.keys() == known and len(tenants) == len(known)
        if name in there:
            there.remove(name)
            left_s[name] = now_s
            tenants.leave(name, now_s)
        else:
            there.add(name)
            left_s.pop(name, None)
            code = tenants.join(name, now_s)
            assert name not in known or code == codes[name]
            codes[name] = code
        numbers = list(tenants.codes.values())
        assert len(set(numbers)) == len(numbers) and max(numbers) <= len("abcde")
        assert decoder(Tenants).decode(encode(tenants)) == tenants


@given(visits)
def test_what_is_remembered_of_a_tenant_by_its_number_is_of_no_later_one(
    steps: list[tuple[str, float]],
) -> None:
    tenants, there, now_s = Tenants(), set[str](), 0.0
    remembered: list[tuple[int, float, str]] = []
    for name, wait_s in steps:
        now_s += wait_s + 1.0
        tenants.forget(now_s)
        if name in there:
            there.remove(name)
            tenants.leave(name, now_s)
        else:
            there.add(name)
            remembered.append((tenants.join(name, now_s), now_s, name))
        again: Tenants = decoder(Tenants).decode(encode(tenants))
        since_s = again.numbers_since_s()
        for code, came_s, whose in remembered:
            if still_its(code, came_s, since_s) != NO_TENANT:
                assert tenants.codes[whose] == code
            else:
                assert whose not in tenants.codes or tenants.since_s[whose] > came_s
