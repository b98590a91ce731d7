"""Slurm scripts as jobs: what is understood, what is dropped, and what is refused."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
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


def translate(text: str, *arguments: str, given: Mapping[str, Any] = {}) -> TranslatedScript:
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
    found = translate("#SBATCH -J a -t 60\n" + LAUNCH, given={"name": "b", "epochs": 2, "global_batch": 8})
    assert found.fields["name"] == "b"
    assert "name: b" in {told.meaning for told in found.lines}
    assert "elasticity" not in found.fields, "a job with epochs and a batch uses swell.train"
    assert dropped(found)["--time=60"].endswith("--deadline now+1h"), "it is measured, and needs no estimate"


@pytest.mark.parametrize("text", ["UNLIMITED", "0", "-1"])
def test_no_limit_of_time(text: str) -> None:
    assert "no limit" in dropped(translate(f"#SBATCH --time={text}\n" + LAUNCH))[f"--time={text}"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no line runs a program"),
        ("# nothing\n#SBATCH -N 2\n", "no line runs a program"),
        ("torchrun --nproc-per-node=auto train.py", "--nproc-per-node=auto is no number that is known"),
        ("#SBATCH --array=0-9%2\n" + LAUNCH, "line 1: --array: an array is many jobs"),
        ("#SBATCH -a 3\n" + LAUNCH, "--array"),
        ("#SBATCH -d afterok:12\n" + LAUNCH, "give --after JOB"),
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


ACCELERATE = """\
#!/bin/bash
#SBATCH -J llama -N 2 --gpus-per-node=4 --ntasks-per-node=1
#SBATCH -t 6:00:00 --signal=B:TERM@120 --requeue -p gpu
#SBATCH --export=ALL,NCCL_DEBUG=INFO

module load cuda
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun -n 2 --label accelerate launch --num_machines $SLURM_NNODES --machine_rank $SLURM_NODEID train.py
"""


def test_a_script_with_a_launcher_of_its_own_is_a_fixed_job() -> None:
    found = translate(ACCELERATE, "--fast")
    *bash, text, name, argument = found.fields.pop("command")
    assert (bash, name, argument) == (["bash", "-c"], "llama", "--fast")
    assert text.endswith(ACCELERATE)
    assert found.fields == {
        "name": "llama", "workdir": "/work", "devices": 8, "nodes": 2, "time": "6h", "grace": "120s",
        "retries": 10, "env": {"NCCL_DEBUG": "INFO"},
    }  # fmt: skip
    assert [*dropped(found)] == ["--partition=gpu"]
    told = {one.text: one.meaning for one in found.lines}
    never = translate(ACCELERATE.replace("--requeue", "--no-requeue"))
    assert never.fields["retries"] == 0, "its command may not run twice"
    assert told["--nodes=2"] == "devices: 8, nodes: 2" and told["--signal=B:TERM@120"] == "grace: 120s"
    assert told["module load cuda"] == "command: bash runs the whole script, once on each node"


@pytest.mark.parametrize(
    "text",
    [
        LAUNCH * 2, "echo hi\n" + LAUNCH, "module load cuda\n" + LAUNCH, "export A=1\n" + LAUNCH,
        "A=1 " + LAUNCH, "source env/bin/activate\n" + LAUNCH, "cd code\n" + LAUNCH, "srun bash run.sh",
        "accelerate launch train.py", "deepspeed train.py", "srun deepspeed train.py",
        "srun accelerate launch train.py", "srun --label -lu -c 8 accelerate launch train.py",
        "srun apptainer exec a.sif train",
        "srun python -m pkg.train", "srun python -c 'import a' a.py", "torchrun -m pkg.train a.py",
        "for x in 1 2\ndo\n" + LAUNCH + "done", LAUNCH.strip() + " | tee log", "python train.py > log 2>&1",
        "python train.py $SLURM_JOB_ID", "python - <<EOF\nprint('it is')\nEOF",
    ],
)  # fmt: skip
def test_what_bash_is_needed_for_is_a_fixed_job(text: str) -> None:
    fields = job("#SBATCH --gpus=2 -t 1:00\n" + text)
    assert fields["command"][2].endswith(text)
    assert (fields["devices"], fields["time"]) == (2, "1m")
    assert fields.keys().isdisjoint({"script", "elasticity", "workers"})


def test_a_time_that_is_given_makes_a_fixed_job_of_any_script() -> None:
    found = translate("#SBATCH -N 2 -t 60 -G 8\n" + LAUNCH, given={"time": "20s", "devices": 4})
    assert [found.fields[word] for word in ("devices", "nodes", "time")] == [4, 2, "20s"]
    told = {one.text: one.meaning for one in found.lines}
    assert told["--time=60"] == "time: 20s" and told["--gpus=8"] == "devices: 4, nodes: 2"


def test_a_script_finds_what_slurm_would_tell_it(tmp_path: Path) -> None:
    """Run by a real bash, as on the second of two nodes."""
    text = """#SBATCH -N 2
set -euo pipefail
echo first $(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun -n 2 --label --mpi=pmix -c8 --cpu-bind none \\
  echo "node $SLURM_NODEID of $SLURM_NNODES" "$1 $SLURM_GPUS_ON_NODE"
if false; then srun false; fi
srun sh -c 'exit 3'
"""
    told = {
        "SWELL_HOSTS": "10.0.0.1,10.0.0.2",
        "PET_NNODES": "2",
        "PET_NODE_RANK": "1",
        "SWELL_JOB_ID": "a-1",
    }
    environ = {"PATH": os.environ["PATH"], "SWELL_DEVICES": "b/0,b/1,b/2"} | told
    done = subprocess.run(
        job(text, "x  y")["command"], capture_output=True, text=True, env=environ, cwd=tmp_path
    )
    assert done.stdout.splitlines() == ["first 10.0.0.1", "node 1 of 2 x  y 3"]
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("#SBATCH -N 2 -n 5 -J vit\nsrun python t.py $X", ["3 0 5 vit", "4 1 5 vit"]),
        ("#SBATCH -N 2 --ntasks-per-node=2\nsrun python t.py $X", ["2 0 4 sbatch", "3 1 4 sbatch"]),
        ("#SBATCH -N2 -n 4 --gpus-per-task=2\nsrun -l python t.py", ["2 0 4 sbatch 4,5", "3 1 4 sbatch 6"]),
        ("#SBATCH -N 2\nsrun -n3 python t.py $X", ["2 0 3 sbatch"]),
        ("#SBATCH -N 2\nset -eu\nsrun --ntasks-per-node 2 python t.py", ["2 0 4 sbatch", "3 1 4 sbatch"]),
        ("#SBATCH -N 2\nsrun -N 1 -n 1 python t.py $X", []),
        ("#SBATCH -N 2\nsrun -N 1 python t.py $X", []),
    ],
)  # fmt: skip
def test_srun_starts_as_many_tasks_as_slurm_would(tmp_path: Path, text: str, told: list[str]) -> None:
    """Run by a real bash, as on the second of two nodes: it ends as the first task that fails."""
    (tmp_path / "python").write_text(
        "#!/bin/sh\n"
        'own=$(test -z "$SLURM_GPUS_PER_TASK" || echo $CUDA_VISIBLE_DEVICES)\n'
        'test "$RANK" || echo $SLURM_PROCID $SLURM_LOCALID $SLURM_NTASKS $SLURM_JOB_NAME $own\n'
        "exit $((5 - SLURM_LOCALID))\n"
    )
    (tmp_path / "python").chmod(0o755)
    environ = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}", "SWELL_HOSTS": "a,b", "PET_NNODES": "2", "RANK": "1",
        "PET_NODE_RANK": "1", "SWELL_JOB_ID": "a", "SWELL_DEVICES": "4,5,6", "CUDA_VISIBLE_DEVICES": "4,5,6",
    }  # fmt: skip
    command = translate(text, given={"time": "1h"}).fields["command"]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == told
    assert (done.returncode, done.stderr) == (5 if told else 0, "")


def test_variables_are_exported_to_a_script_that_may_be_resized_too() -> None:
    found = translate("#SBATCH --export=ALL,A=1,HOME\n" + LAUNCH)
    assert found.fields["env"] == {"A": "1", "HOME": None}
    assert "workers" in found.fields and not dropped(found)


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
