"""The page that shows how to make a script elastic shows one that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fake_agent import FakeAgent, fork_script

from swell.wire import messages

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "make-a-script-elastic.md"


def test_its_script_runs_alone_and_under_an_agent(
    start_agent: Callable[..., FakeAgent], tmp_path: Path
) -> None:
    program = PAGE.read_text().split("```python\n")[1].split("```")[0]
    script = tmp_path / "train.py"
    script.write_text(program)
    process = fork_script(script, (), tmp_path / "log", {})
    process.join(60)
    assert process.exitcode == 0, (tmp_path / "log").read_text()
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == 10
    assert float(lines[-1].split()[-1]) > 0.9
    agent = start_agent(total_steps=250, global_batch=64)
    agent.start_ready([0, 1], script)
    agent.join([0, 1], source=None)
    assert agent.wait(0, messages.Finished).metrics["accuracy"] > 0.9
