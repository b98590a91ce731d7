"""What cannot be summed over workers is refused by name on one worker already, with the change to make."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests.train.torchrun import run_under_torchrun
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from swell import train
from swell.train.collective.norms import StatisticsError


def elastic(model: nn.Module) -> train.Run:
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = DataLoader(TensorDataset(torch.arange(12)), batch_size=4)
    return train.elastic(model, optimizer, loader, epochs=1)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_model_in_ddp_is_refused(group: None) -> None:
    with pytest.raises(TypeError, match=r"the model is a DistributedDataParallel.*model\.module"):
        elastic(DistributedDataParallel(nn.Linear(1, 1)))


def test_a_sharded_optimizer_is_refused(group: None) -> None:
    model = nn.Linear(1, 1)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)
    with pytest.raises(ValueError, match=r"a ZeroRedundancyOptimizer.*AdamW"):
        train.elastic(model, optimizer, DataLoader(TensorDataset(torch.arange(12)), batch_size=4), epochs=1)


@pytest.mark.parametrize("module", [nn.Embedding(12, 2, sparse=True), nn.EmbeddingBag(12, 2, sparse=True)])
def test_sparse_embeddings_are_refused_before_the_first_growth(module: nn.Module) -> None:
    with pytest.raises(TypeError, match=r"module '0' is an Embedding.*sparse=False"):
        elastic(nn.Sequential(module, nn.Linear(2, 1)))


@pytest.mark.parametrize(
    ("tensor", "words"),
    [
        (torch.eye(3).to_sparse(), r"module '1' has 'mask' as a torch\.sparse_coo tensor.*to_dense\(\)"),
        (torch.eye(3, device="meta"), r"module '1' has 'mask' on the meta device.*to_empty\(\)"),
    ],
)
def test_tensors_that_no_new_worker_could_get_are_refused(tensor: torch.Tensor, words: str) -> None:
    part = nn.Identity()
    part.register_buffer("mask", tensor)
    with pytest.raises(TypeError, match=words):
        elastic(nn.Sequential(nn.Linear(1, 1), part))
    part.register_buffer("mask", tensor, persistent=False)  # each worker has its own
    elastic(nn.Sequential(nn.Linear(1, 1), part))


def test_norms_over_workers_are_refused() -> None:
    with pytest.raises(StatisticsError, match=r"module '1' is a SyncBatchNorm.*use nn\.BatchNorm"):
        elastic(nn.Sequential(nn.Linear(1, 4), nn.SyncBatchNorm(4)))


def test_under_torchrun_a_group_of_the_script_may_stay_and_ddp_may_not(tmp_path: Path) -> None:
    script = Path(__file__).parent / "scripts" / "own_group.py"
    status, output = run_under_torchrun(2, tmp_path, script, "plain")
    assert (status, "6 steps on 2 workers" in output) == (0, True), output
    status, output = run_under_torchrun(2, tmp_path, script, "wrapped")
    assert status != 0 and "TypeError: the model is a DistributedDataParallel" in output
