"""A Lightning script learns in a Swell job what it learns by itself, whatever happens to its workers."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libraries.alone import alone
from tests.scripts.gang import FEW_CHANGES, Outcome, outcome_at, outcome_of_a_life

from swell.train.lightning import adapter

PRELOADED = ["lightning.pytorch", "pytorch_lightning"]
SCRIPTS = Path(__file__).parent / "scripts"
CLASSIFIER, GAN, DATA_MODULE = (
    SCRIPTS / f"lightning_{name}.py" for name in ("classifier", "gan", "datamodule")
)


@pytest.fixture(autouse=True)
def _as_long_as_the_script_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.scripts.gang.NUM_STEPS", None)


def assert_same(job: Outcome, by_itself: dict[str, torch.Tensor]) -> None:
    assert job.parameters.keys() == by_itself.keys()
    for name, value in by_itself.items():
        assert job.parameters[name].shape == value.shape, name
        assert (job.parameters[name] - value).abs().max() < 1e-9, name


def rows_in(folder: Path) -> list[dict[str, float]]:
    """What a CSVLogger has written, in the order of steps."""
    [path] = folder.rglob("metrics.csv")
    with path.open(newline="") as file:
        rows = [
            {key: round(float(value), 9) for key, value in row.items() if value}
            for row in csv.DictReader(file)
        ]
    return sorted(rows, key=lambda row: (row["step"], sorted(row)))


def test_a_job_learns_what_the_script_does_alone(tmp_path: Path) -> None:
    """Validation, the best checkpoint, an early end, a schedule by the validated loss; then a test of it."""
    by_itself = alone(CLASSIFIER, tmp_path / "alone")
    job = outcome_at(CLASSIFIER, tmp_path / "job", 2)
    assert by_itself["epoch"] < 12  # it ends early
    assert_same(job, by_itself)
    assert rows_in(tmp_path / "job") == rows_in(tmp_path / "alone")
    assert (tmp_path / "job" / "tested").read_text() == "0\n"  # the worker that has written the best one
    step, value = job.metrics["train_loss_step"]
    assert step == by_itself["global_step"]
    assert value == pytest.approx(float(by_itself["train_loss_step"]))


SCALED = """
from contextlib import nullcontext

class Scaled(pl.plugins.MixedPrecision):
    convert_input, forward_context = staticmethod(lambda data: data), staticmethod(nullcontext)
"""


@pytest.mark.slow
def test_scaled_losses_teach_the_same(tmp_path: Path) -> None:
    """As with half precision, but in double: factors are powers of two, and round nothing."""
    text = CLASSIFIER.read_text().replace("from torch import nn\n", f"from torch import nn\n{SCALED}")
    plugin = 'Scaled("16-mixed", "cpu", torch.amp.GradScaler("cpu", growth_interval=5))'
    scaled = tmp_path / "scaled.py"
    scaled.write_text(text.replace('accelerator="cpu",', f'accelerator="cpu", plugins=[{plugin}],'))
    assert_same(outcome_at(scaled, tmp_path / "job", 2), alone(CLASSIFIER, tmp_path / "alone"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("script", [CLASSIFIER, GAN, DATA_MODULE], ids=lambda script: script.stem)
def test_a_job_learns_the_same_in_any_life(script: Path, seed: int, tmp_path: Path) -> None:
    by_itself = alone(script, tmp_path / "alone")
    job = outcome_of_a_life(script, tmp_path / "life", seed, FEW_CHANGES)
    assert_same(job, by_itself)
    if script != DATA_MODULE:  # where a row of each batch that is accumulated has the rate
        told, wanted = rows_in(tmp_path / "life"), rows_in(tmp_path / "alone")
        missing = [row for row in wanted if row not in told]
        assert len(told) + len(missing) == len(wanted)  # none is there twice, and none is another one
        assert len({row["step"] for row in missing}) <= 1  # of which the writer was killed before it wrote


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"strategy": "deepspeed_stage_2"}, "deepspeed_stage_2"),
        ({"strategy": "fsdp"}, "fsdp"),
        ({"limit_train_batches": 0.5}, "limit_train_batches=0.5"),
        ({"fast_dev_run": True}, "fast_dev_run"),
        ({"max_time": "00:01:00"}, "max_time"),
    ],
)
def test_what_goes_beyond_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named) as refused:
        adapter.one_device_options("Trainer", "lightning.pytorch", options)
    assert "--elasticity restart" in str(refused.value)


@pytest.mark.parametrize(
    ("devices", "num"), [("auto", 1), (4, 4), ("2", 2), ([0, 3], 2), (-1, 1), ("0,1,2", 3)]
)
def test_the_devices_that_a_script_names_are_counted(devices: Any, num: int) -> None:
    assert adapter.num_named(devices) == num
