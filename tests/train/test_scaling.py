"""Laws of learning rates for another batch."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import fork_script

from swell.train.scaling import linear, square_root

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "change-the-batch.md"


@given(st.floats(1 / 64, 64))
def test_rules_agree_where_nothing_is_scaled_and_lie_in_order_elsewhere(scale: float) -> None:
    assert linear(1.0) == square_root(1.0) == 1.0
    between = sorted((1.0, linear(scale)))
    assert between[0] <= square_root(scale) <= between[1]


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    (block,) = PAGE.read_text().split("```python\n")[1:]
    script = tmp_path / "page.py"
    script.write_text(block.split("```")[0])
    process = fork_script(script, (), tmp_path / "page.log", {})
    process.join(PATIENCE_S)
    assert (tmp_path / "page.log").read_text() == "80 steps at 2 times 0.01\n"
    assert process.exitcode == 0
