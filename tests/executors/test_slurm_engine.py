"""Options of a platform on Slurm: which fit together, and what `sbatch` is given."""

from __future__ import annotations

from typing import Any

import pytest

from swell.executors.engine import InvalidEngine
from swell.executors.engines import make_engine
from swell.executors.slurm.engine import SlurmEngine


def made(**options: Any) -> SlurmEngine:
    engine = make_engine("slurm", options, "")
    assert isinstance(engine, SlurmEngine)
    return engine


@pytest.mark.parametrize(
    ("devices", "said", "last"),
    [
        ("cuda:2", "--gres=gpu:a100:2", "--gres=gpu:a100:2"),
        ("cuda:2", "--gpus-per-node a100:2", "--gpus-per-node"),
        ("cuda:2", "-G 2", "-G"),
        ("cuda:2", "-c 16", "-c"),
        ("cpu:4", "", "--cpus-per-task=4"),
    ],
)
def test_what_the_user_says_stands_last_and_of_gpus_alone(devices: str, said: str, last: str) -> None:
    """`sbatch` goes by the last one. A cluster without GPUs is asked for none."""
    words = made(slice_devices=devices, sbatch=said).submission()
    assert words.index(f"--cpus-per-task={devices[-1]}") <= words.index(last)
    assert ("--gres=gpu:2" in words) == (said == "-c 16")


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
