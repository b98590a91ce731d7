"""Slurm scripts as jobs: what is understood, what is dropped, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick

from swell.api.job_file import PlainLoader
from swell.api.sbatch import InvalidScriptLine, TranslatedScript, translated
from swell.api.submission import parse

LAUNCH = "srun python train.py\n"
SEVERAL_NODES = """\
#!/bin/bash -l
#SBATCH --job-name="res net/50"
#SBATCH -N 2 --gpus-per-node=4   # all of each node
#SBATCH --ntasks-per-node 1
#SBATCH -t 1-12
#SBATCH -c8 -p gpu --exclusive

# one worker for each GPU
srun --cpu-bind=none torchrun \\
    --nnodes=$SLURM_NNODES --nproc_per_node=gpu \\
    --rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:29500 \\
    train.py --lr 0.1 --title "two words"
"""


def translate(text: str, *arguments: str, given: tuple[str, ...] = ()) -> TranslatedScript:
    return translated(text, "/work", arguments, given)


def job(text: str, *arguments: str) -> dict[str, Any]:
    return translate(text, *arguments).fields


def dropped(found: TranslatedScript) -> dict[str, str]:
    return {told.text: told.meaning for told in found.lines if told.is_dropped}


def test_a_script_of_several_nodes() -> None:
    found = translate(SEVERAL_NODES, "--seed", "3")
    assert found.fields == {
        "name": "res-net-50",
        "script": "/work/train.py",
        "args": ["--lr", "0.1", "--title", "two words", "--seed", "3"],
        "workdir": "/work",
        "workers": "1:8",
        "elasticity": "restart",
    }
    told = dropped(found)
    assert "--deadline now+1d12h and --estimate TIME" in told["--time=1-12"]
    assert "--kind" in told["--partition=gpu"] and "--exclusive" in told
    lines = [told.line for told in found.lines]
    assert set(lines) == {2, 3, 4, 5, 6, 9} and lines == sorted(lines), "line 9 is the one that trains"


@pytest.mark.parametrize(
    ("text", "workers", "devices"),
    [
        (LAUNCH, "1", None),
        ("#SBATCH -n 8 --gpus-per-task=1\n" + LAUNCH, "1:8", None),
        ("#SBATCH -N2 --ntasks-per-node=4 --gres=gpu:a100:4\n" + LAUNCH, "1:8", None),
        ("#SBATCH --gpus=8\n#SBATCH -n 2\n" + LAUNCH, "1:2", 4),
        ("#SBATCH -G 6\n" + LAUNCH, "1", 4),
        ("#SBATCH -G 4 -n 8\n" + LAUNCH, "1:4", None),
        ("#SBATCH -G 8\nsrun -n 4 --gpus-per-task=2 python train.py", "1:4", 2),
        ("#SBATCH -G 4\npython train.py", "1", 4),
        ("torchrun train.py", "1", None),
        ("torchrun --standalone --nproc-per-node=4 train.py", "1:4", None),
        ("#SBATCH --gpus-per-node=4\ntorchrun --nproc_per_node gpu --nnodes 1:3 train.py", "1:4", None),
        ("#SBATCH -N 3 -G 12\nsrun torchrun --nproc_per_node gpu --nnodes 1:3 train.py", "1:12", None),
        ("python3 -u -m torch.distributed.run --nproc-per-node=2 train.py", "1:2", None),
    ],
)  # fmt: skip
def test_workers_and_devices(text: str, workers: str, devices: int | None) -> None:
    fields = job(text)
    assert (fields["workers"], fields.get("devices_per_worker")) == (workers, devices)


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("srun /opt/py/bin/python3.11 -u train.py", "/opt/py/bin/python3.11"),
        ("srun env/bin/torchrun train.py", "/work/env/bin/python"),
        ("srun ./train.py", None),
    ],
)
def test_interpreters(text: str, python: str | None) -> None:
    assert job(text).get("python") == python


def test_fields_that_are_given_take_the_place_of_the_script_s() -> None:
    found = translate("#SBATCH -J a -t 60\n" + LAUNCH, given=("name", "epochs", "global_batch"))
    assert "name" not in found.fields
    assert "elasticity" not in found.fields, "a job with epochs and a batch uses swell.train"
    assert dropped(found)["--time=60"].endswith("--deadline now+1h"), "it is measured, and needs no estimate"


@pytest.mark.parametrize("text", ["UNLIMITED", "0", "-1"])
def test_no_limit_of_time(text: str) -> None:
    assert "no limit" in dropped(translate(f"#SBATCH --time={text}\n" + LAUNCH))[f"--time={text}"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no line runs a Python file"),
        (LAUNCH * 2, "line 2: runs Python, as line 1 does"),
        ("echo hi\n" + LAUNCH, "line 1: `echo`: Swell runs no shell"),
        ("module load cuda\n" + LAUNCH, "line 1: `module`: Swell loads no modules"),
        ("export A=1\n" + LAUNCH, "give --env NAME=VALUE"),
        ("A=1 " + LAUNCH, "give --env NAME=VALUE"),
        ("source env/bin/activate\n" + LAUNCH, "give --python PATH/bin/python"),
        ("cd code\n" + LAUNCH, "give --workdir FOLDER"),
        ("srun bash run.sh", "line 1: `srun`: Swell runs no shell"),
        ("accelerate launch train.py", "line 1: `accelerate`: it is a launcher of its own"),
        ("srun apptainer exec a.sif train", "give --image NAME"),
        ("srun python -m pkg.train", "`python` runs no file"),
        ("srun python -c 'import a' a.py", "`python` runs no file"),
        ("torchrun -m pkg.train a.py", "`-m pkg.train` is no file"),
        ("torchrun --nproc-per-node=auto train.py", "--nproc-per-node=auto is no number that is known"),
        ("for x in 1 2\ndo\n" + LAUNCH + "done", "line 1: `for`: Swell runs no shell"),
        (LAUNCH.strip() + " | tee log", "`|` is the shell's"),
        (LAUNCH.strip() + " > log 2>&1", "`swell logs JOB` has the output"),
        ("srun python train.py $SLURM_ARRAY_TASK_ID", "`$SLURM_ARRAY_TASK_ID`: Swell runs no shell"),
        ("#SBATCH --array=0-9%2\n" + LAUNCH, "line 1: --array: an array is many jobs"),
        ("#SBATCH -a 3\n" + LAUNCH, "--array"),
        ("#SBATCH -d afterok:12\n" + LAUNCH, "give --after JOB"),
        ("#SBATCH --export=ALL,A=1\n" + LAUNCH, "given by --env NAME=VALUE"),
        ("#SBATCH --tiem=3\n" + LAUNCH, "--tiem is no option that Swell knows"),
        ("#SBATCH --time=1h\n" + LAUNCH, "--time: '1h' is no time of Slurm's"),
        ("#SBATCH train.py\n" + LAUNCH, "`train.py` is no option"),
        ("#SBATCH --nodes=many\n" + LAUNCH, "--nodes=many"),
        ("#SBATCH --comment='a\n" + LAUNCH, "no closing quotation"),
        ("#!/usr/bin/env python\n#SBATCH -N 1\nprint()", "it is a Python script"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_job_is_named_with_a_remedy(text: str, told: str) -> None:
    with pytest.raises(InvalidScriptLine) as caught:
        translate(text)
    assert told in str(caught.value)
    assert "; " in str(caught.value), "a remedy stands behind the rule"


LINES = st.lists(
    pick(
        "#!/bin/bash", "#SBATCH -N 2", "#SBATCH --gpus-per-node=4", "#SBATCH --time=10:00", "#SBATCH -t",
        "#SBATCH", "##SBATCH -N x", "", "module load a", "export X='", "srun python train.py X \\",
        "torchrun a.py", "--lr 1", "srun", "srun -n", "python", "$X", "()", "a | b", "&&", "\0", '"', "\\",
        "python -m", "''",
    ),
    max_size=8,
)  # fmt: skip


@given(LINES.map("\n".join))
def test_a_script_becomes_a_job_or_one_error(text: str) -> None:
    try:
        found = translate(text, "first")
    except InvalidScriptLine as error:
        assert str(error)
    else:
        file = yaml.load(yaml.safe_dump(found.fields), PlainLoader)  # noqa: S506
        assert parse(file) == parse(found.fields), "the job file that is printed is this job"
        assert all(told.meaning and told.text for told in found.lines)


@given(st.text(max_size=60).filter(lambda text: ".py" not in text))
def test_a_text_that_runs_no_python_is_one_error(text: str) -> None:
    with pytest.raises(InvalidScriptLine):
        translate(text)
