"""Scripts in the idioms of the wild: what they learn and report is the same at all sizes, and in any life."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.scripts.gang import FEW_CHANGES, MANY_CHANGES, Gang, Outcome, outcome_at, outcome_of_a_life

from swell.wire import messages

HERE = Path(__file__).parent
SAME = sorted((HERE / "same").glob("*.py"))

#: Each with a number, by which its life is drawn. Few enough for each run of the tests; the soak tests take
#: all. `test_differs.py` takes as many others.
SIXTH = [
    pytest.param(script, number, id=script.stem, marks=[] if number % 6 == 0 else pytest.mark.soak)
    for number, script in enumerate(SAME)
]

of_each_script = pytest.mark.parametrize("script", SAME, ids=lambda script: script.stem)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Outcome]:
    """What a script learns on one worker that nothing happens to."""

    @cache
    def outcome(script: Path) -> Outcome:
        return outcome_at(script, tmp_path_factory.mktemp(script.stem) / "alone", 1)

    return outcome


@pytest.mark.slow
@pytest.mark.parametrize(("script", "number"), SIXTH)
def test_a_script_learns_the_same_in_a_short_life(
    script: Path, number: int, alone: Callable[[Path], Outcome], tmp_path: Path
) -> None:
    learnt = outcome_of_a_life(script, tmp_path / "gang", number, FEW_CHANGES)
    assert not learnt.differences(alone(script))


@pytest.mark.slow
def test_what_changes_for_the_first_time_in_a_step_that_is_lost_is_put_back(
    alone: Callable[[Path], Outcome], tmp_path: Path
) -> None:
    """The script evaluates first after its fifth step, in which a worker is lost, and notes the best."""
    script = HERE / "same" / "evaluation_by_own_counter.py"
    gang = Gang(script, tmp_path / "gang")
    try:
        gang.agent.start_ready([0, 1, 2], script, str(gang.folder / "final.pt"))
        gang.members = [0, 1, 2]
        gang.generation = gang.agent.regroup(gang.members, None)
        for member in gang.members:
            gang.agent.wait(member, messages.Joined)
        gang.allow_more(4)
        gang.agent.wait(0, messages.Alive, lambda alive: alive.steps == 4)
        gang.kill(random.Random(0))
        assert not gang.finish().differences(alone(script))
    finally:
        gang.agent.close()


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
@of_each_script
def test_a_script_learns_the_same_in_any_life(
    script: Path, seed: int, alone: Callable[[Path], Outcome], tmp_path: Path
) -> None:
    learnt = outcome_of_a_life(script, tmp_path / "gang", seed, MANY_CHANGES)
    assert not learnt.differences(alone(script))


@pytest.mark.soak
@pytest.mark.parametrize("num_workers", [2, 3, 4])
@of_each_script
def test_a_script_learns_the_same_at_each_size(
    script: Path, num_workers: int, alone: Callable[[Path], Outcome], tmp_path: Path
) -> None:
    assert not outcome_at(script, tmp_path / "gang", num_workers).differences(alone(script))
