"""Scripts of the real libraries that are told their part of the batch end alike on 1, 2 and 4 workers."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.eventually import PATIENCE_S

pytestmark = pytest.mark.soak  # each process imports a library for seconds
SCRIPTS = Path(__file__).parent / "scripts"
#: Samples in the batch of all workers.
BATCH = 20


def run(script: Path, folder: Path, num_workers: int, num_epochs: int) -> dict[str, torch.Tensor]:
    """What the script leaves in `final.pt`, with torchrun's environment."""
    folder.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    sizes = {"WORLD_SIZE": str(num_workers), "LOCAL_WORLD_SIZE": str(num_workers), "TORCHELASTIC_RUN_ID": "a"}
    workers = [
        subprocess.Popen(
            [sys.executable, str(script), str(num_epochs), str(BATCH // num_workers)],
            cwd=folder,
            env={
                **os.environ,
                **common,
                **sizes,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "GROUP_RANK": "0",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(num_workers)
    ]
    outputs = [worker.communicate(timeout=PATIENCE_S)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * num_workers, "\n".join(outputs)
    final: dict[str, torch.Tensor] = torch.load(folder / "final.pt", weights_only=True)
    return final


@pytest.mark.parametrize(
    ("library", "script"),
    [
        ("accelerate", "with_accelerate.py"),
        ("transformers", "with_trainer.py"),
        ("lightning", "with_lightning.py"),
    ],
)
def test_steps_and_parameters_are_the_same_at_each_size_and_through_a_restart(
    library: str, script: str, tmp_path: Path
) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    whole = {size: run(SCRIPTS / script, tmp_path / str(size), size, 4) for size in (1, 2, 4)}
    run(SCRIPTS / script, tmp_path / "restarted", 4, 2)
    whole[0] = run(SCRIPTS / script, tmp_path / "restarted", 2, 4)
    assert {int(final["steps"]) for final in whole.values()} == {8}
    for final in whole.values():
        torch.testing.assert_close(final["parameters"], whole[1]["parameters"], rtol=0, atol=1e-12)
