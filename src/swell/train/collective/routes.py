"""Which way the training state goes to those that lack it: few times over a network, then through memory.

Workers of one *place* can read each other's memory: those of one host. Members know the places of all, and
each works out the same ways.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from swell.train.collective.interfaces import own_address

#: Of a worker that reads no other's memory.
NOWHERE = ""

_BOOT_ID, _PROCESSES = Path("/proc/sys/kernel/random/boot_id"), "/proc/self/ns/pid"


def own_place() -> str:
    """The place of this process: a kernel since its start, a namespace of process ids, a host's address."""
    try:
        return f"{_BOOT_ID.read_text().strip()} {os.readlink(_PROCESSES)} {own_address()}"
    except OSError:
        return NOWHERE


def memory_routes(
    lacking: Sequence[int], lenders: Sequence[int], places: Sequence[str], blind: Collection[int] = ()
) -> dict[int, int]:
    """Who reads whose memory, by rank: each that has a lender at its place, the lenders in turn.

    Args:
        lenders: ranks whose memory holds the state.
        places: by rank.
        blind: ranks that have tried, and could not.
    """
    routes: dict[int, int] = {}
    for place in dict.fromkeys(places[rank] for rank in lenders):
        near = [rank for rank in lenders if places[rank] == place != NOWHERE]
        readers = [rank for rank in lacking if places[rank] == place and rank not in blind]
        if near:
            routes |= {rank: near[number % len(near)] for number, rank in enumerate(readers)}
    return routes


def receivers(
    holders: Sequence[int], lacking: Sequence[int], places: Sequence[str], blind: Collection[int] = ()
) -> list[int]:
    """Who gets it by messages: the first of each place, for its neighbours too, and each that reads nothing.

    Those at a holder's place are among the latter: they would have read its memory.
    """
    homes = {NOWHERE, *(places[rank] for rank in holders)}
    chosen: dict[object, int] = {}
    for rank in lacking:
        is_alone = rank in blind or places[rank] in homes
        chosen.setdefault(rank if is_alone else places[rank], rank)
    return list(chosen.values())


def lines(holders: Sequence[int], takers: Sequence[int], places: Sequence[str]) -> list[list[int]]:
    """Lines in which messages are passed on, each of a holder and its takers.

    Takers at the holders' places are shared out among all holders. To other places one holder of each place
    sends: more would share its network.
    """
    homes = {places[rank] for rank in holders}
    first = {places[rank]: rank for rank in reversed(holders)}
    senders = [rank for rank in holders if first[places[rank]] == rank]
    made: dict[int, list[int]] = {rank: [rank] for rank in holders}
    near = [rank for rank in takers if places[rank] in homes]
    far = [rank for rank in takers if places[rank] not in homes]
    for number, rank in enumerate(near):
        made[holders[number % len(holders)]].append(rank)
    for number, rank in enumerate(far):
        made[senders[number % len(senders)]].append(rank)
    return [line for line in made.values() if len(line) > 1]
