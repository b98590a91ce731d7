"""What makes a script depend on its sizes is found, with its line, and nothing in others."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.scripts.gang import Gang, NotProved, agent_in, marked_line, outcome_at
from tests.scripts.test_scripts import SAME

from swell.script_facts import ScriptFinding
from swell.wire import messages

#: What begins after the trial run's steps: a worker finds it that is to prove itself later.
LATE = ("clamped_late", "class_weights_late", "ignored_labels_late")
FOLDER = Path(__file__).parent / "differs"
#: What each worker counts of its own samples is reported, or kept in `run.state`.
OWN_SHARES = ("own_share_reported", "plateau_of_own_losses")
#: In these each worker's own samples decide when the loop ends.
EXITS = ("patience_by_own_sum",)
DIFFERS = [
    pytest.param(script, id=script.stem)
    for script in sorted(FOLDER.glob("*.py"))
    if script.stem not in (*EXITS, *LATE, *OWN_SHARES)
]


def findings_that_hold(script: Path, folder: Path) -> list[ScriptFinding]:
    agent = agent_in(folder, mode="profile", total_steps=None, compares=True, resumes=True)
    try:
        agent.start(0, script, str(folder / "final.pt"))
        agent.exit_status(0)
        findings = [
            found for _, told in agent.all_said(messages.Profiled)[-1:] for found in told.findings
        ] + [told.finding for _, told in agent.all_said(messages.NotCompared)]
    finally:
        agent.close()
    assert not any(found.name == "not-compared" for found in findings), findings
    return [found for found in findings if found.holds]


@pytest.mark.slow
@pytest.mark.parametrize("script", DIFFERS)
def test_what_depends_on_the_sizes_is_found_with_its_line(script: Path, tmp_path: Path) -> None:
    number, name = marked_line(script, "differs")
    found = findings_that_hold(script, tmp_path / "gang")
    assert [(finding.name, finding.place) for finding in found] == [(name, f"{script}:{number}")]


@pytest.mark.slow
@pytest.mark.parametrize("name", LATE)
def test_what_begins_late_is_found_with_its_line_when_a_worker_proves_itself(
    name: str, tmp_path: Path
) -> None:
    script = FOLDER / f"{name}.py"
    number, finding = marked_line(script, "differs")
    with pytest.raises(NotProved, match=rf"{script}:{number}") as told:
        outcome_at(script, tmp_path / "gang", 2, audited=[5, 60])
    assert [found.name for found in told.value.findings] == [finding]


@pytest.mark.slow
@pytest.mark.parametrize("name", OWN_SHARES)
def test_a_value_of_a_workers_own_share_is_told_with_its_line(name: str, tmp_path: Path) -> None:
    script = FOLDER / f"{name}.py"
    number, finding = marked_line(script, "differs")
    gang = Gang(script, tmp_path / "gang")
    try:
        gang.resize(2, random.Random(0))
        gang.finish(audited=[20])
        found = [told.finding for _, told in gang.agent.all_said(messages.ScriptFound)]
    finally:
        gang.agent.close()
    assert (finding, f"{script}:{number}") in [(each.name, each.place) for each in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXITS)
def test_a_worker_that_leaves_before_the_others_tells_its_line(name: str, tmp_path: Path) -> None:
    script = FOLDER / f"{name}.py"
    number, _ = marked_line(script, "differs")
    with pytest.raises(NotProved, match=rf"left its loop alone, at {script}:{number}$"):
        outcome_at(script, tmp_path / "gang", 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(script, id=script.stem, marks=[] if is_one_of_few else pytest.mark.soak)
        for number, script in enumerate(SAME)
        for is_one_of_few in [number % 6 == 3 or script.stem == "small_passes"]
    ],
)
def test_nothing_is_held_against_a_script_that_is_right(script: Path, tmp_path: Path) -> None:
    assert findings_that_hold(script, tmp_path / "gang") == []
