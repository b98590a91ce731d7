"""The standing campaign over machines: kills, partitions and freezes at random moments of random resizes.

At the end no job is lost. Each elastic job has told, in every step and to the last bit, what one process
alone tells. Each sample was applied once an epoch, no device had two workers at once (they hold locks on
their machines), no worker ran on a host that was given up, and the journal leads to the same commands again.
`make test-chaos-machines` strikes 90 times, and another platform, whose hosts are nodes of Ray, 20 times:
each of these kills whole nodes. CHAOS_SEED is another life, CHAOS_FAULTS another number, and CHAOS_KINDS only
some kinds, by name. CHAOS_LINK=1gbit, CHAOS_DELAY_MS=5 and CHAOS_LOSS=.001 are the links of machines that
join; see `Link`.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from tests.chaos.machines.changes import change, clear
from tests.chaos.machines.fleet import PATIENCE_S, Fleet, joined_fleet
from tests.chaos.machines.ray_fleet import ray_fleet
from tests.chaos.machines.strikes import FREEZES, KILLS, PARTITIONS, Campaign
from tests.chaos.machines.work import Work
from tests.eventually import eventually
from tests.machines.namespaces import why_not
from tests.ray import cluster

from swell.model.view import JobView, Story

pytest.importorskip("torch")

NUM_HOSTS = 3
#: Epochs of a job: a short life, and one of several faults.
SHORT, LONG = (4, 12), (8, 40)
STRIKES = KILLS | PARTITIONS | FREEZES
Shares = Sequence[tuple[Collection[str], int]]
#: Of each nine faults so many are of a group.
OF_MACHINES: Shares = ((KILLS, 5), (PARTITIONS, 2), (FREEZES, 2))
#: Whole nodes, with their raylets and all that these have started.
OF_RAY_NODES: Shares = ((("kill_a_machine", "kill_two_machines", "crash_a_machine"), 1),)
#: A strike comes at a random moment of the resize that a change has led to, this long after it at most.
WITHIN_S = 2.0
#: So many of the strikes wait for the begin of a resize, and come this long after it at most.
IN_RESIZE, RESIZE_S = 0.7, 0.5
END_WITHIN_S = 1800.0


def live(fleet: Fleet, folder: Path, shares: Shares, num_faults: int) -> None:
    """`num_faults`: unless CHAOS_FAULTS is another number."""
    num_faults, seed = int(os.environ.get("CHAOS_FAULTS", num_faults)), int(os.environ.get("CHAOS_SEED", "1"))
    chance = Random(seed)
    epochs = SHORT if num_faults < 20 else LONG
    campaign = Campaign(fleet, Work(fleet, folder, chance, epochs), chance)
    try:
        fleet.start()
        _strike(campaign, _order(chance, shares, num_faults))
        _check_end(campaign)
    except BaseException:
        _say(f"seed {seed}, after {campaign.told[-5:]}; traces in {folder}")
        fleet.keep_traces()
        raise
    fleet.keep_traces()


def _strike(campaign: Campaign, order: list[str]) -> None:
    begun_s = time.monotonic()
    for number, name in enumerate(order, start=1):
        campaign.fleet.head.ensure_up()
        campaign.fleet.await_hosts(campaign.chance.randint(1, NUM_HOSTS))
        campaign.work.refill()
        _await_training(campaign)
        changed = _change(campaign)
        _say(f"{time.monotonic() - begun_s:7.1f} s  {number:3d}  {changed}, {name}")
        campaign.told.append(name)
        STRIKES[name](campaign)
    _say(f"{dict(Counter(campaign.told))}")


def _change(campaign: Campaign) -> str:
    """What it was; returns at a random moment, which is more often than not one of a resize."""
    chance, before = campaign.chance, _generations(campaign)
    changed = change(campaign)
    if chance.random() < IN_RESIZE:
        with suppress(AssertionError):  # not all changes lead to one
            eventually(lambda: _has_begun(before, _generations(campaign)), "a resize", WITHIN_S)
        time.sleep(chance.uniform(0.0, RESIZE_S))
    else:
        time.sleep(chance.uniform(0.0, WITHIN_S))
    return changed


def _generations(campaign: Campaign) -> dict[str, int]:
    """Of the latest orders to the gangs that train."""
    return {view.id: view.generation for view in campaign.fleet.head.views() if view.phase == "running"}


def _has_begun(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    return any(generation > before.get(name, generation) for name, generation in now.items())


def _order(chance: Random, shares: Shares, num_faults: int) -> list[str]:
    """Every kind of a group as often as any other, as far as that goes; in any order."""
    if named := os.environ.get("CHAOS_KINDS"):
        return _draw(chance, sorted(named.split(",")), num_faults)
    total = sum(share for _, share in shares)
    drawn: list[str] = []
    for group, share in shares:
        drawn += _draw(chance, sorted(group), -(-num_faults * share // total))
    chance.shuffle(drawn)
    return drawn[:num_faults]


def _draw(chance: Random, kinds: list[str], num: int) -> list[str]:
    rounds = -(-num // len(kinds))
    return [name for _ in range(rounds) for name in chance.sample(kinds, len(kinds))][:num]


def _await_training(campaign: Campaign) -> None:
    def look() -> bool:
        return any(view.phase == "running" and view.live_pids for view in campaign.fleet.head.views())

    eventually(look, "a job that trains", 2 * PATIENCE_S)


def _check_end(campaign: Campaign) -> None:
    fleet, work = campaign.fleet, campaign.work
    fleet.head.ensure_up()
    fleet.await_hosts(NUM_HOSTS)
    clear(campaign)
    views = eventually(lambda: _all_ended(fleet), "the end of every job", END_WITHIN_S)
    assert {view.id for view in views} == set(work.every), "no job is lost, and none was made up"
    complaints = {host.name: text for host in fleet.hosts if (text := host.complaints())}
    assert not complaints, complaints
    with fleet.head.client() as client:
        stories = {view.id: client.stories(view.id) for view in views}
    failures = [str(failure) for view in views if (failure := _failure(work, view, stories[view.id]))]
    assert not failures, "\n\n".join(failures)
    assert fleet.replay_differs() is None
    eventually(lambda: not any(host.workers() for host in fleet.hosts), "the end of all workers")
    resizes, pause_s = sum(view.resizes for view in views), sum(view.resize_pause_s for view in views)
    kept = Counter(view.kept for view in views if view.is_promised)
    _say(f"{len(views)} jobs ended as they should, with {resizes} resizes; promises kept: {dict(kept)}")
    _say(f"pauses {pause_s:.1f} s")


def _failure(work: Work, view: JobView, stories: list[Story]) -> AssertionError | None:
    """Of this job; the others are to be looked at as well."""
    try:
        work.check(view, stories)
    except AssertionError as failure:
        return failure
    return None


def _all_ended(fleet: Fleet) -> list[JobView] | None:
    views = fleet.head.views()
    return views if all(view.phase.is_end for view in views) else None


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@pytest.mark.soak
@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_ninety_faults_of_machines(tmp_path: Path) -> None:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with joined_fleet(tmp_path, NUM_HOSTS) as fleet:
        live(fleet, tmp_path, OF_MACHINES, 90)


@pytest.mark.soak
@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_twenty_kills_of_ray_nodes(tmp_path: Path) -> None:
    if cluster.why_not():
        pytest.skip(f"no Ray cluster can be had here: {cluster.why_not()}")
    with ray_fleet(tmp_path, NUM_HOSTS) as fleet:
        live(fleet, tmp_path, OF_RAY_NODES, 20)
