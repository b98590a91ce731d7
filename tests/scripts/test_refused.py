"""Scripts that cannot be right at all sizes end with an error that names the line and the change."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.scripts.gang import NUM_STEPS, agent_in, marked_line
from tests.train.fake_agent import until

from swell.wire import messages

REFUSED = sorted((Path(__file__).parent / "refused").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("script", REFUSED, ids=lambda script: script.stem)
def test_a_script_that_cannot_be_right_names_the_line_and_the_change(script: Path, tmp_path: Path) -> None:
    number, text = marked_line(script, "refused")
    agent = agent_in(tmp_path / "gang", total_steps=NUM_STEPS)

    def has_failed() -> bool:
        return bool(agent.all_said(messages.Failed))

    try:
        members = [0, 1]
        for member in members:
            agent.start(member, script, str(tmp_path / "final.pt"))
        until(lambda: len(agent.all_said(messages.Ready)) == len(members) or has_failed())
        if not has_failed():
            agent.regroup(members, None)
        until(has_failed)
        message = agent.all_said(messages.Failed)[0][1].message
    finally:
        agent.close()
    assert f'{script.name}", line {number},' in message
    assert text in message.splitlines()[-1]
