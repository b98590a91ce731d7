"""An Accelerate script learns in a Swell job what it learns by itself, whatever happens to its workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.libraries.alone import alone
from tests.libraries.refusals import refusal_of
from tests.scripts.gang import FEW_CHANGES, Gang, outcome_at, outcome_of_a_life

from swell.wire import messages

PRELOADED = ["accelerate"]
SCRIPT = Path(__file__).parent / "scripts" / "with_accelerate.py"
GAN = Path(__file__).parent / "scripts" / "with_gan.py"


@pytest.mark.parametrize("script", [SCRIPT, pytest.param(GAN, marks=pytest.mark.slow)])
def test_a_job_learns_what_the_script_does_alone(script: Path, tmp_path: Path) -> None:
    job = outcome_at(script, tmp_path / "job", 2)
    by_itself = alone(script, tmp_path / "alone")
    if script == SCRIPT:
        assert by_itself["history"].shape == (90, 4)
        written = [(tmp_path / name / "lines").read_text().split() for name in ("job", "alone")]
        assert written == [[str(epoch) for epoch in range(10)]] * 2
    for name, value in by_itself.items():
        assert (job.parameters[name] - value).abs().max() < 1e-9, name


@pytest.mark.slow
def test_scaled_losses_teach_the_same(tmp_path: Path) -> None:
    """As with half precision, but in double: factors are powers of two, and round nothing."""
    made, scaler = "accelerator = Accelerator(cpu=True)\n", 'torch.amp.GradScaler("cpu", growth_interval=5)'
    scaled = tmp_path / "scaled.py"
    scaled.write_text(GAN.read_text().replace(made, f"{made}accelerator.scaler = {scaler}\n"))
    assert "scaler" in scaled.read_text()
    job = outcome_at(scaled, tmp_path / "job", 2)
    for name, value in alone(GAN, tmp_path / "alone").items():
        assert (job.parameters[name] - value).abs().max() < 1e-9, name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("script", [SCRIPT, GAN])
def test_a_job_learns_the_same_in_any_life(script: Path, seed: int, tmp_path: Path) -> None:
    job = outcome_of_a_life(script, tmp_path / "life", seed, FEW_CHANGES)
    assert not job.differences(outcome_at(script, tmp_path / "job", 1))


@pytest.mark.parametrize(
    ("line", "other", "told"),
    [
        ("accelerator.epochs(NUM_EPOCHS) if", "range(NUM_EPOCHS) if", "in accelerator.epochs(num_epochs):"),
        (
            "scheduler.step()",
            "accelerator.gather(loss)",
            "accelerator.gather() in the loop over the training",
        ),
    ],
)
def test_what_a_loop_cannot_do_is_refused(line: str, other: str, told: str, tmp_path: Path) -> None:
    assert told in refusal_of(SCRIPT, line, other, tmp_path)


def test_a_plug_in_is_refused_by_name(tmp_path: Path) -> None:
    script = tmp_path / "plugged.py"
    script.write_text(
        "from accelerate import Accelerator, FullyShardedDataParallelPlugin\n"
        "Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin())\n"
    )
    gang = Gang(script, tmp_path / "job")
    try:
        gang.agent.start(0, script)
        failed = gang.agent.wait(0, messages.Failed)
    finally:
        gang.agent.close()
    assert "Accelerator was given fsdp_plugin" in failed.message
    assert "--elasticity restart" in failed.message


def test_a_library_is_adapted_when_it_is_imported_and_not_before() -> None:
    lines = (
        "import sys, swell.train.runtime.runner",
        "from swell.train.libraries import adapt_libraries",
        "adapt_libraries()",
        "assert not {'accelerate', 'transformers', 'lightning'} & sys.modules.keys()",
        "from accelerate import Accelerator",
        "print(Accelerator.__module__)",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "swell.train.accelerate\n"
