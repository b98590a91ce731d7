"""Options of a platform on Slurm: which fit together, and what `sbatch` is given."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swell.executors.engine import InvalidEngine
from swell.executors.engines import make_engine
from swell.executors.slurm.engine import SlurmEngine


def made(**options: Any) -> SlurmEngine:
    engine = make_engine("slurm", options, "")
    assert isinstance(engine, SlurmEngine)
    return engine


def test_a_slice_is_a_job_of_one_task_with_its_devices() -> None:
    engine = made(
        partition="scav", slice_devices="cuda:2", sbatch="--time=4:00:00 --exclusive --comment='a b'"
    )
    assert set(engine.submission()) >= {
        "--nodes=1", "--ntasks=1", "--partition=scav", "--gres=gpu:2", "--cpus-per-task=2", "--time=4:00:00",
        "--exclusive", "--comment=a b", "--no-requeue",
    }  # fmt: skip


@pytest.mark.parametrize("said", ["--gres=gpu:a100:2", "--gpus-per-node a100:2", "-G 2"])
def test_gpus_are_asked_for_as_the_user_says(said: str) -> None:
    words = made(slice_devices="cuda:2", sbatch=said).submission()
    assert said.split()[0] in words and "--gres=gpu:2" not in words


def test_cpus_of_the_user_stand_last_where_sbatch_goes_by_them() -> None:
    words = made(slice_devices="cuda:2", sbatch="-c 16").submission()
    assert words.index("--cpus-per-task=2") < words.index("-c")


def test_a_cluster_without_gpus_is_asked_for_none() -> None:
    words = made(slice_devices="cpu:4").submission()
    assert "--cpus-per-task=4" in words and not any("gres" in word for word in words)


def test_the_door_finds_what_was_chosen() -> None:
    engine = made(max_nodes=8, min_nodes=2, slice_devices="paced:2@200/1")
    assert msgspec.json.decode(engine.encoded(), type=SlurmEngine) == engine and engine.num_devices == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"min_nodes": 3, "max_nodes": 2},
            r"--min-nodes 3: it is more than --max-nodes 2; lower it",
        ),
        ({"slice_devices": "auto"}, r"--slice-devices auto: .* write cuda:N, cpu:N or paced:N@RATE"),
        ({"slice_devices": "cuda:0"}, r"--slice-devices cuda:0: .* one at least"),
        ({"sbatch": "-p scav"}, r"--sbatch '-p scav': .* name it with --partition"),
        ({"sbatch": "--comment='a"}, r"--sbatch .* close its quotes"),
    ],
)
def test_options_that_do_not_fit_are_refused_with_the_remedy(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidEngine, match=told):
        made(**options)
