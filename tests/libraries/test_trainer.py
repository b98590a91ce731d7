"""A script with `transformers.Trainer`, unchanged, learns in a Swell job what it learns by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.libraries.alone import alone
from tests.scripts.gang import FEW_CHANGES, outcome_at, outcome_of_a_life

pytestmark = pytest.mark.slow
PRELOADED = ["transformers.trainer", "trl.trainer.sft_trainer"]
SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.parametrize("name", ["with_trainer.py", "with_classifier.py"])
def test_a_job_learns_what_the_script_does_alone(name: str, tmp_path: Path) -> None:
    job = outcome_at(SCRIPTS / name, tmp_path / "job", 2)
    by_itself = alone(SCRIPTS / name, tmp_path / "alone")
    assert {"loss", "eval_loss"} <= job.metrics.keys()
    for key, value in by_itself.items():
        assert job.parameters[key].shape == value.shape, key
        assert (job.parameters[key] - value).abs().max() < 1e-9, key


def test_a_checkpoint_of_another_run_is_neither_read_nor_overwritten(tmp_path: Path) -> None:
    alone(SCRIPTS / "with_trainer.py", tmp_path / "run")
    script, before = tmp_path / "again.py", tmp_path / "run" / "out"
    script.write_text(
        "import runpy, shutil, sys\nfrom pathlib import Path\n"
        f"shutil.copytree({str(before)!r}, Path(sys.argv[1]).with_name('out'))\n"
        f"runpy.run_path({str(SCRIPTS / 'with_trainer.py')!r}, run_name='__main__')\n"
    )
    with pytest.raises(AssertionError, match=r"checkpoint-\d+'\): a Swell job begins with step 0"):
        outcome_at(script, tmp_path / "job", 1)
    saved, left = (
        {path.relative_to(out): path.read_bytes() for path in out.rglob("*.safetensors")}
        for out in (before, tmp_path / "job" / "out")
    )
    assert saved == left != {}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["with_trainer.py", "with_classifier.py"])
def test_a_job_learns_the_same_in_any_life(name: str, seed: int, tmp_path: Path) -> None:
    job = outcome_of_a_life(SCRIPTS / name, tmp_path / "life", seed, FEW_CHANGES)
    assert not job.differences(outcome_at(SCRIPTS / name, tmp_path / "job", 1))


def test_sft_trainer_learns_in_a_life_what_it_does_alone(tmp_path: Path) -> None:
    """In float32, in which its loss is computed. A bias of keys has no gradient but of rounding."""
    job = outcome_of_a_life(SCRIPTS / "with_sft.py", tmp_path / "job", 2, FEW_CHANGES)
    by_itself = alone(SCRIPTS / "with_sft.py", tmp_path / "alone")
    gaps = {
        key: float((job.parameters[key] - value).norm() / value.norm()) for key, value in by_itself.items()
    }
    assert not {key: gap for key, gap in gaps.items() if gap > 1e-4 and not key.endswith("c_attn.bias")}
