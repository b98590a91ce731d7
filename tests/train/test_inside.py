"""Scripts that divide a model among the processes of a worker learn what a plain loop of torch does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from tests.train.torchrun import run_under_torchrun
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_module
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.wire import environ

INSIDE = Path(__file__).parent / "scripts" / "inside.py"
NUM_PROCESSES = {"fsdp": 2, "tp": 2, "both": 4, "hsdp": 4}
#: Of what a process keeps of the samples that it has seen by itself.
OWN = "seen.running_var"


def run_divided(folder: Path, kind: str, *words: str) -> dict[str, Any]:
    """What the script has learnt under torchrun."""
    status, said = run_under_torchrun(NUM_PROCESSES[kind], folder, INSIDE, "result.json", kind, *words)
    assert status == 0, said
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return result


def assert_learnt(ours: dict[str, Any], plain: Path, tolerance: float = 1e-9) -> None:
    theirs = json.loads(plain.read_text())
    for what in ("losses", "norms", "model"):
        assert ours[what].keys() == theirs[what].keys()
        for name, values in theirs[what].items():
            if name != OWN:
                assert ours[what][name] == pytest.approx(values, rel=tolerance, abs=tolerance), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("fsdp", ("clip",)),
        ("tp", ()),
        ("both", ("passes", "weights")),
        ("hsdp", ("clip", "passes")),
        ("fsdp", ("sum", "statistics")),
        ("fsdp", ("weights", "outside", "passes")),
        ("fsdp", ("outside", "sometimes")),
        ("fsdp", ("frozen", "stream", "divides")),
        ("fsdp", ("compiled", "two")),
        ("tp", ("weights", "stream", "frozen", "passes")),
    ],
    ids=lambda each: each if isinstance(each, str) else "-".join(each),
)
def test_processes_of_a_worker_learn_what_one_does(
    run_plain: Callable[..., Path], tmp_path: Path, kind: str, words: tuple[str, ...]
) -> None:
    assert_learnt(run_divided(tmp_path, kind, *words), run_plain("inside.py", "plain", *words))


@pytest.mark.slow
def test_in_bfloat16_the_losses_are_near(run_plain: Callable[..., Path], tmp_path: Path) -> None:
    ours, theirs = run_divided(tmp_path, "fsdp", "bfloat16"), run_plain("inside.py", "plain", "bfloat16")
    assert_learnt(ours, theirs, tolerance=0.05)


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Has this process be the first of so many of a worker, of which there are no others."""

    def be_first(num: int) -> None:
        monkeypatch.setenv(environ.PROCESSES, str(num))
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=num)

    yield be_first
    if dist.is_initialized():
        dist.destroy_process_group()


def elastic(model: nn.Module, **named: Any) -> Any:
    loader = DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=4)
    return train.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, epochs=1, **named)


def test_a_plain_script_in_several_processes_is_told_to_divide_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(environ.PROCESSES, "2")
    with pytest.raises(ValueError, match=r"2 processes.*divides nothing.*fully_shard.*--processes 1"):
        elastic(nn.Linear(2, 2))


def test_a_divided_model_in_one_process_is_told_how_to_get_more(processes: Callable[[int], None]) -> None:
    processes(1)
    model = distribute_module(nn.Linear(2, 2), init_device_mesh("cpu", (1,)))
    with pytest.raises(ValueError, match=r"--devices-per-worker K.*torchrun --nproc-per-node K"):
        elastic(model)


def test_a_mesh_without_names_is_told_to_name_its_dimensions(processes: Callable[[int], None]) -> None:
    processes(2)
    mesh = init_device_mesh("cpu", (2,))
    with pytest.raises(ValueError, match=r"mesh without names.*mesh_dim_names"):
        elastic(distribute_module(nn.Linear(2, 2), mesh), mesh=mesh)


def test_a_scaler_and_fixed_bits_are_refused_in_several_processes(processes: Callable[[int], None]) -> None:
    processes(2)
    model = distribute_module(nn.Linear(2, 2), init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)))
    with pytest.raises(ValueError, match=r"deterministic=True.*several processes.*leave it out"):
        elastic(model, deterministic=True)
    run = elastic(model)
    batches = run.batches()
    (x,) = next(batches)
    loss = sum(parameter.sum() for parameter in model.parameters()) * x.sum()
    with pytest.raises(RuntimeError, match=r"scaler.*bfloat16, without a scaler"):
        run.backward(loss, scaler=torch.amp.GradScaler("cpu"))
