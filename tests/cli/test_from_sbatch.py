"""`swell submit --from-sbatch`: a Slurm script becomes a job, and each line is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.api.fake_control import FakeControl
from tests.cli.conftest import Run
from tests.cli.test_program import fails

from swell.model.job import Elasticity, JobSpec

SBATCH = """\
#!/bin/bash
#SBATCH -J digits --gpus=4 -n 4 -t 2:00:00
srun python train.py --lr 0.1
"""


@pytest.fixture
def sbatch(script: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(script.parent)
    file = script.with_name("train.sbatch")
    file.write_text(SBATCH)
    return file


def newest(control: FakeControl) -> JobSpec:
    """What was submitted last."""
    return control.submission(max(control.jobs(), key=lambda view: view.submitted_s).id).spec


def test_what_a_slurm_script_runs_is_submitted(here: Run, control: FakeControl, sbatch: Path) -> None:
    done = here(
        "submit", "--from-sbatch", sbatch, "--env", "MORE=1", "--seed", 3, "--no-wait", "--", "--fast"
    )
    assert done.returncode == 0, done
    spec = newest(control)
    assert (spec.name, spec.entry, spec.args) == (
        "digits",
        str(sbatch.with_name("train.py")),
        ("--lr", "0.1", "--fast"),
    )
    assert (spec.min_workers, spec.max_workers, spec.elasticity) == (1, 4, Elasticity.RESTART)
    assert (dict(spec.env), spec.seed) == ({"MORE": "1"}, 3)
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "line 2: --job-name=digits -> name: digits",
        "line 2: --gpus=4 -> workers: 1:4",
        "line 2: --ntasks=4 -> workers: 1:4",
    ]
    assert lines[-1].startswith("digits-"), "the verdict stands last"


def test_options_of_swell_take_the_place_of_the_script_s(
    here: Run, control: FakeControl, sbatch: Path
) -> None:
    words = ("--name", "other", "--workers", "2", "--global-batch", 64, "--epochs", 3)
    done = here("submit", "--from-sbatch", sbatch, "--no-wait", "--json", *words)
    assert [view["name"] for view in json.loads(done.stdout)] == ["other"]
    spec = newest(control)
    assert (spec.max_workers, spec.elasticity, spec.global_batch) == (2, Elasticity.LIVE, 64)


def test_a_dry_run_prints_a_job_file_and_submits_nothing(
    here: Run, control: FakeControl, sbatch: Path
) -> None:
    before = len(control.jobs())
    done = here("submit", "--from-sbatch", sbatch, "--dry-run")
    assert (done.returncode, len(control.jobs())) == (0, before), done
    said, file = done.stdout.split("\nAs a job file:\n\n")
    assert said.startswith("line 2: --job-name=digits")
    job = yaml.safe_load(file)
    assert job["workers"] == "1:4" and job["args"] == ["--lr", "0.1"]
    as_json = json.loads(here("submit", "--from-sbatch", sbatch, "--dry-run", "--json").stdout)
    assert as_json["job"] == job
    assert [told["line"] for told in as_json["lines"]][:3] == [2, 2, 2]
    sbatch.with_name("job.yaml").write_text(file)
    assert here("submit", sbatch.with_name("job.yaml"), "--no-wait").returncode == 0


def test_a_script_for_a_launcher_is_submitted_as_a_fixed_job(
    here: Run, control: FakeControl, sbatch: Path
) -> None:
    sbatch.write_text("#SBATCH -G 4 --export=A=1\nmodule load cuda\ndeepspeed train.py\n")
    words = ("--time", "2h", "--env", "B=2", "--no-wait", "--", "x")
    assert here("submit", "--from-sbatch", sbatch, *words).returncode == 0
    spec = newest(control)
    assert (spec.elasticity, spec.devices_per_worker, spec.args[-1]) == (Elasticity.FIXED, 4, "x")
    assert {"A": "1", "B": "2"}.items() <= dict(spec.env).items()


@pytest.mark.parametrize(
    ("words", "text", "parts"),
    [
        ((), "module load cuda", ("time: missing; give the longest that the command may run",)),
        ((), "# nothing", ("train.sbatch, line 1: no line runs a program",)),
        (("--dry-run",), "srun python missing.py", ("missing.py", "script: ")),
        (("--dry-run", "--deadline", "now+1h"), "srun python train.py", ("needs its steps, or an estimate",)),
        ((), None, ("train.sbatch cannot be read (No such file or directory); correct the path",)),
        ((), "\udcff", ("train.sbatch is not UTF-8 text; save it as UTF-8",)),
    ],
)
def test_what_cannot_be_submitted_is_one_line(
    here: Run, sbatch: Path, words: tuple[str, ...], text: str | None, parts: tuple[str, ...]
) -> None:
    if text is None:
        sbatch.unlink()
    else:
        sbatch.write_bytes(text.encode("utf-8", "surrogateescape"))
    fails(here("submit", "--from-sbatch", sbatch, *words), 2, *parts)
