"""The state reaches every worker that lacks it, and goes to each host over the network once."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.train.collective.routes import NOWHERE, lines, memory_routes, own_place, receivers
from swell.wire import environ


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[str], list[int], list[int], set[int]]:
    """Places by rank, holders, those who lack it, and of these some that can read no memory."""
    places = draw(st.lists(st.sampled_from(["a", "b", "c", NOWHERE]), min_size=1, max_size=8))
    ranks = range(len(places))
    holders = draw(st.lists(st.sampled_from(ranks), min_size=1, unique=True))
    lacking = [rank for rank in ranks if rank not in holders]
    return places, sorted(holders), lacking, {rank for rank in lacking if draw(st.booleans())}


@given(groups(), st.booleans())
def test_all_have_it_after_two_rounds(
    group: tuple[list[str], list[int], list[int], set[int]], lends: bool
) -> None:
    """As `hand_state` goes about it; `lends`: the holders' memory can be read."""
    places, holders, lacking, unable = group
    lenders, blind, num_rounds = list(holders) if lends else [], set[int](), 0
    while lacking:
        num_rounds += 1
        routes = memory_routes(lacking, lenders, places, blind)
        blind |= routes.keys() & unable
        lacking = [rank for rank in lacking if rank in blind or rank not in routes]
        chosen = receivers(holders, lacking, places, blind)
        reached = [rank for line in lines(holders, chosen, places) for rank in line[1:]]
        assert sorted(reached) == sorted(chosen)
        lacking = [rank for rank in lacking if rank not in chosen]
        lenders = chosen
    assert num_rounds <= 2


@given(groups())
def test_memory_is_read_at_its_own_place(
    group: tuple[list[str], list[int], list[int], set[int]],
) -> None:
    places, holders, lacking, blind = group
    routes = memory_routes(lacking, holders, places, blind)
    assert all(places[reader] == places[lender] != NOWHERE for reader, lender in routes.items())
    homes = {places[rank] for rank in holders} - {NOWHERE}
    assert routes.keys() == {rank for rank in lacking if places[rank] in homes and rank not in blind}
    for place in homes:
        loads = Counter(routes.values())
        of_place = [loads[rank] for rank in holders if places[rank] == place]
        assert max(of_place) - min(of_place) <= 1


@given(groups())
def test_each_host_gets_it_over_the_network_once_and_each_holding_host_sends_in_one_line(
    group: tuple[list[str], list[int], list[int], set[int]],
) -> None:
    places, holders, lacking, _ = group
    chosen = receivers(holders, lacking, places)
    homes = {places[rank] for rank in holders}
    far = [places[rank] for rank in chosen if places[rank] not in {*homes, NOWHERE}]
    assert len(far) == len(set(far))
    assert {places[rank] for rank in lacking} - homes - {NOWHERE} == set(far)
    made = lines(holders, chosen, places)
    assert all(line[0] in holders for line in made)
    crossing = [line for line in made if any(places[rank] not in homes for rank in line)]
    senders = [places[line[0]] for line in crossing]
    assert len(senders) == len(set(senders))


def test_workers_of_one_machine_are_at_one_place_unless_their_hosts_are_reached_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = own_place()
    assert own_place() == before != NOWHERE
    monkeypatch.setenv(environ.ADDRESS, "127.0.0.2")
    assert own_place() != before
