"""Slurm scripts as jobs: what is understood, what is dropped, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick

from swell.api.job_file import PlainLoader
from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.translation import TranslatedScript, translated
from swell.api.submission import parse

ENVIRON = {"HOME": "/home/me", "DATA": "/data", "SLURM_JOB_ID": "of the shell that submits"}
LAUNCH = "srun python train.py\n"

#: As in many guides of clusters: several nodes, and an address that is found by a command.
SEVERAL_NODES = """\
#!/bin/bash -l
#SBATCH --job-name="res net/50"
#SBATCH -N 2 --gpus-per-node=4   # all of each node
#SBATCH --ntasks-per-node 1
#SBATCH -t 1-12
#SBATCH -c8 -p gpu --exclusive
#SBATCH --export=ALL,NCCL_DEBUG=INFO

set -euo pipefail
module load cuda/12.1 || exit 1
source env/bin/activate
nodes=( $(scontrol show hostnames $SLURM_JOB_NODELIST) )
export MASTER_ADDR=$(srun --nodes=1 --ntasks=1 -w "${nodes[0]}" hostname --ip-address)
export OMP_NUM_THREADS=8 HF_HOME=$HOME/hf
ARGS="--lr 0.1 --data $DATA/cats"
ARGS+=" --loaders $SLURM_CPUS_PER_TASK"
#SBATCH --mem=10G
cd code
WANDB_MODE=offline srun --cpu-bind=none torchrun \\
    --nnodes=$SLURM_NNODES --nproc_per_node=$SLURM_GPUS_ON_NODE \\
    --rdzv_id $RANDOM --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:29500 \\
    train.py $ARGS --title "two words" 2>&1 | tee log.txt
echo done
"""


def translate(text: str, *arguments: str, given: tuple[str, ...] = ()) -> TranslatedScript:
    return translated(text, "/work", ENVIRON, arguments, given)


def job(text: str, *arguments: str) -> dict[str, Any]:
    return translate(text, *arguments).fields


def dropped(found: TranslatedScript) -> dict[str, str]:
    return {told.text: told.meaning for told in found.lines if told.is_dropped}


def test_a_script_of_several_nodes() -> None:
    found = translate(SEVERAL_NODES)
    assert found.fields == {
        "name": "res-net-50",
        "script": "/work/code/train.py",
        "args": ["--lr", "0.1", "--data", "/data/cats", "--loaders", "8", "--title", "two words"],
        "workdir": "/work/code",
        "python": "/work/env/bin/python",
        "env": {"NCCL_DEBUG": "INFO", "HF_HOME": "/home/me/hf", "WANDB_MODE": "offline"},
        "workers": "1:8",
        "elasticity": "restart",
    }
    told = dropped(found)
    assert "--deadline now+1d12h and --estimate TIME" in told["--time=1-12"]
    assert "--kind" in told["--partition=gpu"]
    assert told["export MASTER_ADDR"] == "Swell sets it for each worker"
    assert "before `swell up`" in told["export OMP_NUM_THREADS"]
    assert "Slurm does not read it either" in told["--mem=10G"]
    assert told["2>&1"] == "`swell logs JOB` has the output of all workers"
    assert told["torchrun --rdzv-id --rdzv-backend --rdzv-endpoint"].startswith("Swell brings the workers")


def test_each_line_that_says_something_is_told_in_order() -> None:
    found = [told.line for told in translate(SEVERAL_NODES).lines]
    says = [
        number
        for number, text in enumerate(SEVERAL_NODES.splitlines(), 1)
        if re.match(r"#SBATCH|[^#\s]", text)
    ]
    assert set(found) == {*says, 22} and found == sorted(found), "line 22 is the end of the one that trains"


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
        ("srun /opt/py/bin/python3.11 train.py", "/opt/py/bin/python3.11"),
        ("srun env/bin/torchrun train.py", "/work/env/bin/python"),
        (". ~/env/bin/activate && python train.py", "/home/me/env/bin/python"),
        ("conda activate /opt/env\nsrun python train.py", "/opt/env/bin/python"),
        ("conda activate mine\nsrun python train.py", None),
    ],
)
def test_interpreters(text: str, python: str | None) -> None:
    assert job(text).get("python") == python


def test_arguments_are_those_of_the_slurm_script() -> None:
    assert job('srun python train.py --lr $1 "$2"', "0.5", "a b")["args"] == ["--lr", "0.5", "a b"]
    assert job('srun python train.py "$@"', "0.5", "a b")["args"] == ["0.5", "a b"]
    assert "args" not in job('srun python train.py "$@"')


def test_folders() -> None:
    assert job("#SBATCH -D runs\n" + LAUNCH)["workdir"] == "/work/runs"
    assert job("#SBATCH --chdir=/other\ncd sub\ncd ../a\n" + LAUNCH)["script"] == "/other/a/train.py"
    assert job("cd $DATA\npython /else/train.py")["script"] == "/else/train.py"


def test_fields_that_are_given_take_the_place_of_the_script_s() -> None:
    found = translate("#SBATCH -J a -t 60\n" + LAUNCH, given=("name", "epochs", "global_batch"))
    assert "name" not in found.fields
    assert "elasticity" not in found.fields, "a job with epochs and a batch uses swell.train"
    assert dropped(found)["--time=60"].endswith("--deadline now+1h"), "it is measured, and needs no estimate"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("echo hi", "no line runs a Python file"),
        (LAUNCH * 2, "line 2: runs Python, as line 1 does"),
        ("python prepare.py\n" + LAUNCH, "line 2: runs Python, as line 1 does"),
        ("srun ./a.out", "line 1: srun runs no Python file"),
        ("srun hostname", "no line runs a Python file"),
        ("srun bash run.sh", "line 1: `bash` is another shell script"),
        ("accelerate launch train.py", "line 1: `accelerate` is a launcher of its own"),
        ("srun apptainer exec a.sif python train.py", "give --image NAME"),
        ("srun python -m pkg.train", "Python runs `-m pkg.train`"),
        ("srun python -c 'import a'", "Swell runs a file"),
        ("torchrun -m pkg.train", "torchrun runs `-m`"),
        ("torchrun --nproc train.py", "torchrun: option --nproc"),
        ("torchrun --nproc-per-node=auto train.py", "--nproc-per-node=auto is no number that is known"),
        ("torchrun --nnodes=$NODES train.py", "$NODES is not set in the script, nor here"),
        ("for x in 1 2; do\n" + LAUNCH + "done", "line 1: `for` is shell logic"),
        ("if [ -d data ]; then\n" + LAUNCH + "fi", "line 1: `if` is shell logic"),
        ("run() {\n" + LAUNCH + "}", "line 1: `(` is shell logic"),
        ("while true; do\n" + LAUNCH + "done", "`while` is shell logic"),
        ("cat <<EOF\nx\nEOF\n" + LAUNCH, "`<<` is shell logic"),
        ("[ -d data ] && " + LAUNCH, "`srun` depends on a condition"),
        ("cd data || " + LAUNCH, "`srun` depends on `||`"),
        ("cat list | " + LAUNCH, "`srun` depends on `|`"),
        ("srun python train.py < data", "reads input"),
        ("eval $CMD", "`eval` is shell logic"),
        ("srun python train.py $SLURM_ARRAY_TASK_ID", "$SLURM_ARRAY_TASK_ID numbers the tasks of an array"),
        ("srun python train.py --nodes $SLURM_NNODES", "let the script read WORLD_SIZE"),
        ("srun python train.py --out $SLURM_JOB_ID", "$SLURM_JOB_ID is set by Slurm"),
        ("export OUT=$(date +%s)\n" + LAUNCH, "line 1: the value of `$(date +%s)` is not known"),
        ("#SBATCH --array=0-9%2\n" + LAUNCH, "line 1: --array: an array is many jobs"),
        ("#SBATCH -a 3\n" + LAUNCH, "--array"),
        ("#SBATCH -d afterok:12\n" + LAUNCH, "give --after JOB"),
        ("#SBATCH --tiem=3\n" + LAUNCH, "option --tiem not recognized"),
        ("#SBATCH --time=1h\n" + LAUNCH, "--time: '1h' is no time of Slurm's"),
        ("#SBATCH train.py\n" + LAUNCH, "`train.py` is no option"),
        ("#SBATCH --nodes=many\n" + LAUNCH, "--nodes=many"),
        ("#SBATCH --comment='a\n" + LAUNCH, "no closing quotation"),
        ("#!/usr/bin/env python\n#SBATCH -N 1\nprint()", "it is a Python script"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_job_is_named_with_a_remedy(text: str, told: str) -> None:
    with pytest.raises(InvalidSbatchLine) as caught:
        translate(text)
    assert told in str(caught.value)
    assert "; " in str(caught.value), "a remedy stands behind the rule"


def test_what_is_not_known_is_no_error_where_nothing_of_the_job_has_it() -> None:
    text = "now=$(date)\necho $now $SLURM_JOB_ID $SLURM_ARRAY_TASK_ID\nmkdir -p out/$now\n" + LAUNCH
    assert job(text)["script"] == "/work/train.py"


def test_an_array_below_the_first_command_is_none() -> None:
    assert job(LAUNCH + "#SBATCH --array=1-3\n")["workers"] == "1"


LINES = st.lists(
    pick(
        "#!/bin/bash", "#SBATCH -N 2", "#SBATCH --gpus-per-node=4", "#SBATCH --time=10:00", "#SBATCH -t",
        "#SBATCH", "##SBATCH -N x", "", "module load a", "export A=$B C", "export X='", "X=1", "cd $X",
        "source e/bin/activate", "srun python train.py $X \\", "torchrun a.py",
        "--lr 1", "if a; then", "srun", "srun -n", "python", "$X", "()", "a | b", "&&", "time", "env A=1",
        "\0", "export", "cd", '"$@"', "\\", "srun python train.py $HOME", "export X=3",
    ),
    max_size=8,
)  # fmt: skip


@given(LINES.map("\n".join))
def test_a_script_becomes_a_job_or_one_error(text: str) -> None:
    try:
        found = translate(text, "first")
    except InvalidSbatchLine as error:
        assert str(error)
    else:
        file = yaml.load(yaml.safe_dump(found.fields), PlainLoader)  # noqa: S506
        assert parse(file) == parse(found.fields), "the job file that is printed is this job"
        assert all(told.meaning and told.text for told in found.lines)


@given(st.text(max_size=60).filter(lambda text: ".py" not in text))
def test_a_text_that_runs_no_python_is_one_error(text: str) -> None:
    with pytest.raises(InvalidSbatchLine):
        translate(text)
