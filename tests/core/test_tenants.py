"""Numbers of tenants: one each, for ever."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from swell.core.tenants import MEMORY_S, Tenants
from swell.model.coding import decoder, encode

#: (a tenant of whom a job comes or, the second time, goes; seconds before that)
visits = st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0.0, MEMORY_S)), max_size=60)


@given(visits)
def test_everybody_has_a_number_for_ever_and_counts_for_a_day_after_the_last_job(
    steps: list[tuple[str, float]],
) -> None:
    tenants, there, left_s, now_s = Tenants(), set[str](), dict[str, float](), 0.0
    codes: dict[str, int] = {}
    for name, wait_s in steps:
        now_s += wait_s
        tenants.forget(now_s)
        known = there | {one for one, at_s in left_s.items() if now_s - at_s <= MEMORY_S}
        assert len(tenants) == len(known)
        if name in there:
            there.remove(name)
            left_s[name] = now_s
            tenants.leave(name, now_s)
        else:
            there.add(name)
            left_s.pop(name, None)
            code = tenants.join(name)
            assert code == codes.setdefault(name, code)
        assert tenants.codes == codes and sorted(codes.values()) == list(range(len(codes)))
        assert decoder(Tenants).decode(encode(tenants)) == tenants
