"""The pages that show scripts show ones that run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.eventually import PATIENCE_S
from tests.train.fake_agent import FakeAgent, fork_script
from tests.train.torchrun import run_under_torchrun

from swell.wire import messages

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "how-to"


def write_script(page: str, folder: Path, number: int = 1) -> Path:
    """Write a program of a page, the first one by default, or one that stands in a file of its own."""
    script = folder / "train.py"
    text = (PAGES / page).read_text()
    script.write_text(text.split("```python\n")[number].split("```")[0] if page.endswith(".md") else text)
    return script


#: A small model, which is not compiled.
SMALL = (
    "--vocabulary 128 --layers 2 --width 64 --length 16 "
    "--samples 1600 --batch 64 --epochs 3 --rate 0.003 --eager"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "number", "args", "num_epochs", "is_good"),
    [
        ("make-a-script-elastic.md", 1, "", 10, lambda last: last > 0.9),  # its accuracy
        ("../../examples/stream_lines.py", 1, "", 5, lambda last: last < 0.5),  # its loss
        ("../../examples/train_gpt.py", 1, SMALL, 3, lambda last: last < 0.5),  # its loss
        ("../../examples/half_precision.py", 1, "", 10, lambda last: last >= 65536),  # its scale
    ],
)
def test_a_script_runs_alone_and_under_an_agent(
    start_agent: Callable[..., FakeAgent],
    tmp_path: Path,
    page: str,
    number: int,
    args: str,
    num_epochs: int,
    is_good: Callable[[float], bool],
) -> None:
    script = write_script(page, tmp_path, number)
    process = fork_script(script, args.split(), tmp_path / "log", {})
    process.join(PATIENCE_S)
    assert process.exitcode == 0, (tmp_path / "log").read_text()
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == num_epochs
    assert is_good(float(lines[-1].split()[-1])), lines
    agent = start_agent(total_steps=25 * num_epochs, global_batch=64)
    agent.start_ready([0, 1], script, *args.split())
    agent.join([0, 1], source=None)
    assert agent.wait(0, messages.Finished).steps == 25 * num_epochs
    assert agent.exit_status(0) == 0, agent.logs()
    assert is_good(float(agent.log(0).read_text().splitlines()[-1].split()[-1])), agent.logs()


def test_the_page_of_divided_models_shows_lines_of_its_example() -> None:
    page = (PAGES / "divide-a-model-among-devices.md").read_text()
    example = (ROOT / "examples" / "fsdp_gpt.py").read_text()
    shown = page.split("```python\n")[1].split("```")[0].splitlines()
    assert len(shown) > 10
    assert [line for line in shown if line not in example.splitlines()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "num_processes", "loss"),
    [("fsdp_gpt", 2, 0.1), ("tensor_parallel_mlp", 2, 0.2), ("fsdp_and_tensor_parallel", 4, 4.0)],
)
def test_an_example_of_a_divided_model_learns(
    tmp_path: Path, name: str, num_processes: int, loss: float
) -> None:
    status, said = run_under_torchrun(num_processes, tmp_path, ROOT / "examples" / f"{name}.py")
    assert status == 0, said
    told = [line for line in said.splitlines() if line.startswith("epoch ")]
    assert len(told) == 10
    assert float(told[-1].split()[-1]) < loss, said
