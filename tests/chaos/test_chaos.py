"""The standing test: random faults of all kinds, one after the other, on several jobs at a time.

At the end every job has succeeded, or failed by its own fault, each sample was seen exactly once an epoch, no
command has run twice at a time, the journal leads to the same commands again, and nothing is left behind.
`make test-chaos` strikes 300 times; CHAOS_SEED chooses another life, CHAOS_FAULTS another number of faults,
CHAOS_KINDS only some kinds, by name.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from tests.chaos.faults import FAULTS, refill
from tests.chaos.jobs import Jobs
from tests.chaos.scene import Scene, own_disk
from tests.eventually import eventually
from tests.platform.program import Program
from tests.platform.wall import WallClock

from swell.model.view import JobView

pytest.importorskip("torch")


@dataclass(frozen=True)
class Life:
    """Of a platform."""

    num_faults: int
    epochs: tuple[int, int]  #: of a job: at least, at most
    num_open: int  #: jobs at a time


END_WITHIN_S = 600.0


@dataclass(frozen=True)
class Places:
    """Where a platform of this test keeps what is its own."""

    state: Path
    has_own_disk: bool  #: for its state
    temporary: Path  #: with a short name, for sockets are made there


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Places]:
    state = tmp_path / "state"
    with own_disk(state) as has_own_disk, tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        yield Places(state, has_own_disk, Path(temporary))


def live(places: Places, folder: Path, seed: int, life: Life) -> None:
    chance, wall = Random(seed), WallClock(folder)
    swell = Program(places.state, {**wall.environ, "TMPDIR": str(places.temporary)})
    jobs = Jobs(swell, folder, chance, life.epochs, life.num_open)
    scene = Scene(swell, wall, chance, jobs, folder, places.has_own_disk)
    begun_s = time.monotonic()
    try:
        scene.up()
        for number, name in enumerate(_order(chance, life.num_faults), start=1):
            scene.ensure_up()
            refill(scene, scene.jobs)
            scene.told.append(name)
            _say(f"{time.monotonic() - begun_s:7.1f} s  {number:3d}  {name}")
            FAULTS[name](scene)
        scene.ensure_up()
        _check_end(scene)
        _say(f"{time.monotonic() - begun_s:7.1f} s  {len(scene.jobs.every)} jobs ended as they should")
        assert swell("down").returncode == 0
    except BaseException:
        _say(f"seed {seed}, after {scene.told[-5:]}")
        swell("down", "--force")
        raise
    eventually(lambda: not swell.processes(), f"no process is left: {swell.processes()}")
    assert not list(places.temporary.glob("pymp-*"))


def _order(chance: Random, num_faults: int) -> list[str]:
    """Every kind as often as any other, as far as that goes; in any order."""
    kinds = sorted(os.environ.get("CHAOS_KINDS", ",".join(FAULTS)).split(","))
    rounds = -(-num_faults // len(kinds))
    drawn = [name for _ in range(rounds) for name in chance.sample(kinds, len(kinds))]
    return drawn[:num_faults]


def _check_end(scene: Scene) -> None:
    views = eventually(lambda: _all_ended(scene), "the end of every job", END_WITHIN_S)
    by_id = {view.id: view for view in views}
    assert set(by_id) == set(scene.jobs.every), "no job is lost, and none was made up"
    for view in views:
        scene.jobs.check(view)
    found = scene.swell.json("admin", "replay")
    assert found["first_difference"] is None, found


def _all_ended(scene: Scene) -> list[JobView] | None:
    scene.ensure_up()
    views = scene.views()
    return views if all(view.phase.is_end for view in views) else None


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


@pytest.mark.slow
def test_six_faults(places: Places, tmp_path: Path) -> None:
    """Half as many jobs at a time as in the long run: each starts processes that import torch."""
    life = Life(num_faults=6, epochs=(6, 20), num_open=3)
    live(places, tmp_path, int(os.environ.get("CHAOS_SEED", "1")), life)


@pytest.mark.soak
@pytest.mark.chaos
@pytest.mark.timeout(7200)
def test_three_hundred_faults(places: Places, tmp_path: Path) -> None:
    num_faults = int(os.environ.get("CHAOS_FAULTS", "300"))
    life = Life(num_faults, epochs=(20, 120), num_open=6)
    live(places, tmp_path, int(os.environ.get("CHAOS_SEED", "1")), life)
