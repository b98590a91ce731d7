"""Every policy commands what it did when these runs were recorded, to the last bit of each number.

Each process has another order of hashes, so that none of it shows. Where decisions are to change:
`python -m tests.decisions.record` writes them again, and `--show CASE` prints the commands of one run.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from tests.decisions.cases import SCENES, Case, cases
from tests.decisions.digests import Digest, Told, Transcript, difference, read, transcribe

from swell.model.command import WakeAt
from swell.policies.registry import POLICIES

CASES = cases()
RECORDED = read()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_a_run_commands_what_it_did(case: Case) -> None:
    told = difference(RECORDED[case.name], transcribe(case))
    assert not told, f"{case.name}: {told}"


def test_each_policy_has_a_run_of_each_scene_and_nothing_else_is_recorded() -> None:
    assert {f"{policy}/{scene}" for policy in POLICIES for scene in SCENES} <= CASES.keys()
    assert RECORDED.keys() == CASES.keys()


def test_the_runs_have_every_kind_of_command_and_answer() -> None:
    commands: Counter[str] = Counter()
    for one in RECORDED.values():
        commands.update(one.commands)
    kinds = {"LaunchGang", "ProfileJob", "Reconfigure", "StopGang", "SuspendGang", "WakeAt"}
    assert commands.keys() == kinds and min(commands.values()) >= 50
    of_default = [one for name, one in RECORDED.items() if name.startswith("elasticflow/")]
    assert (
        min(
            sum(counts)
            for counts in zip(*((one.promised, one.refused, one.late) for one in of_default), strict=True)
        )
        >= 3
    )


def test_a_difference_is_told_by_its_first_command() -> None:
    was = Transcript([Told(turn, float(turn), WakeAt(at_s=10.0 + turn)) for turn in range(9)])
    now = Transcript(was.told.copy())
    assert difference(was.digest(), now) == ""
    now.told[4] = now.told[4]._replace(command=WakeAt(at_s=14.000000000000002))
    told = difference(was.digest(), now)
    assert told.startswith("command 5 of 9 ") and '"at_s":14.000000000000002' in told, told
    shorter = Transcript(was.told[:4])
    assert "is now the end" in difference(was.digest(), shorter)
    other = msgspec.structs.replace(was.digest(), answers="0")
    assert isinstance(other, Digest) and "answers 0 -> " in difference(other, was)
