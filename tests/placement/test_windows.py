"""Windows for jobs that cannot move, against a look at every second."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from swell.placement.windows import NodeWindows

HORIZON = 40
WIDTHS = st.lists(st.integers(0, 8), min_size=1, max_size=4)
Taken = list[tuple[int, int, int, int]]
TAKEN = st.lists(
    st.tuples(st.integers(0, 3), st.integers(1, 8), st.integers(-5, 20), st.integers(1, 15)), max_size=8
)


def both(widths: list[int], taken: Taken) -> tuple[NodeWindows, list[list[int]]]:
    """The windows, and what is free of each node in each second."""
    known = [(f"n{node % len(widths)}", num, float(at), float(at + lasts)) for node, num, at, lasts in taken]
    windows = NodeWindows(0.0, {f"n{at}": width for at, width in enumerate(widths)}, known)
    plain = [[width] * HORIZON for width in widths]
    for node, num, from_s, length_s in taken:
        node %= len(widths)
        for second in range(max(from_s, 0), min(max(from_s + length_s, 0), HORIZON)):
            plain[node][second] -= num
    return windows, plain


@given(widths=WIDTHS, taken=TAKEN, length=st.integers(1, 12), parts=st.integers(1, 3), num=st.integers(1, 4))
def test_the_earliest_window_is_the_first_of_all_seconds(
    widths: list[int], taken: Taken, length: int, parts: int, num: int
) -> None:
    windows, plain = both(widths, taken)

    def room(second: int) -> list[int]:
        return [max(min((*node[second : second + length], widths[at])), 0) for at, node in enumerate(plain)]

    def fits(second: int) -> bool:
        return sum(one // num for one in room(second)) >= parts

    expected = next((second for second in range(HORIZON) if fits(second)), math.inf)
    starts_s = list(windows.starts_s(float(length), parts, num))
    assert next(iter(starts_s), math.inf) == expected
    assert starts_s == sorted(starts_s) and all(fits(int(at_s)) for at_s in starts_s)
    for at_s in starts_s:
        free = dict(zip(windows.names, room(int(at_s)), strict=True))
        found = windows.parts(at_s, float(length), parts, num)
        assert sum(found.values()) == parts * num
        assert all(one % num == 0 and one <= free[name] for name, one in found.items())
        num_roomy = sum(one >= num for one in free.values())
        assert len(found) == min(parts, num_roomy)


@given(widths=WIDTHS, taken=TAKEN, num=st.integers(1, 12))
def test_devices_of_few_nodes_are_taken_where_any_will_do(widths: list[int], taken: Taken, num: int) -> None:
    windows, _ = both(widths, taken)
    room = windows.room(0.0, 10.0)
    found = windows.spread(0.0, 10.0, num)
    assert sum(found.values()) == min(num, sum(room.values()))
    assert all(0 < one <= room[name] for name, one in found.items())
    assert len(found) <= 1 or max(room.values()) < num


@given(widths=WIDTHS, taken=TAKEN)
def test_changes_add_up_to_what_is_free(widths: list[int], taken: Taken) -> None:
    windows, plain = both(widths, taken)
    closed = windows.without_nodes({"n1"})
    for view, counted in (
        (windows, range(len(widths))),
        (closed, [at for at in range(len(widths)) if at != 1]),
    ):
        changes = view.changes(windows.names)
        free = sum(max(plain[at][0], 0) for at in counted)
        for second in range(1, HORIZON):
            free += sum(num for at_s, num in changes if at_s == second)
            assert free == sum(max(plain[at][second], 0) for at in counted)


def test_devices_that_go_for_good_do_not_come_back() -> None:
    windows = NodeWindows(0.0, {"n0": 4}, [("n0", 4, 10.0, math.inf), ("n0", 1, 0.0, 5.0)])
    assert windows.changes(["n0"]) == [(5.0, 1), (10.0, -4)]
    assert list(windows.starts_s(5.0, 1, 4)) == [5.0] and list(windows.starts_s(6.0, 1, 4)) == []
