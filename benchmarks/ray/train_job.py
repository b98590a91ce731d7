"""The rival's job: the model of `benchmarks.training` under Ray Train's elastic mode, as its users write it.

    python -m benchmarks.ray.train_job --address ADDRESS --size 25M --optimizer adam --folder FOLDER

It trains until it is ended. Checkpoints go to FOLDER, which all nodes share.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import ray
import ray.train
import torch
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.ray.settings import CHECKPOINT_STEPS, FIRST_CHECKPOINT_STEPS, MAX_FAILURES, MONITOR_S
from benchmarks.ray.site import NUM_NODES, RESOURCE
from benchmarks.training.problem import OPTIMIZERS, SIZES, make_problem
from benchmarks.training.steplog import StepLog
from benchmarks.training.train import GLOBAL_BATCH

STATE = "state.pt"


def train(config: Mapping[str, str]) -> None:
    """What each worker runs, in every group again."""
    context = ray.train.get_context()
    rank, num_workers = context.get_world_rank(), context.get_world_size()
    log = StepLog(Path(config["folder"]), time.time)
    model, optimizer, data = make_problem(config["size"], config["optimizer"])
    loss_of = nn.CrossEntropyLoss()
    first_epoch, steps = load(model, optimizer)
    parallel = prepare_model(model)
    loader = prepare_data_loader(
        DataLoader(data, batch_size=max(1, GLOBAL_BATCH // num_workers), shuffle=True)
    )
    for epoch in itertools.count(first_epoch):
        if num_workers > 1:
            loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_of(parallel(x), y)
            loss.backward()
            optimizer.step()
            steps += 1
            log.note(steps, num_workers, rank)
            if steps % CHECKPOINT_STEPS == 0 or steps == FIRST_CHECKPOINT_STEPS:
                save(rank, model, optimizer, epoch, steps)


def load(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[int, int]:
    """Epoch and steps of the newest checkpoint."""
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return 0, 0
    with checkpoint.as_directory() as folder:
        saved = torch.load(Path(folder) / STATE, weights_only=True, mmap=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    return saved["epoch"], saved["steps"]


def save(rank: int, model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, steps: int) -> None:
    """All workers have to call it after the same step; the first one has the checkpoint."""
    if rank:
        ray.train.report({})
        return
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch, "steps": steps}
    with tempfile.TemporaryDirectory() as folder:
        torch.save(state, Path(folder) / STATE)
        ray.train.report({}, checkpoint=ray.train.Checkpoint.from_directory(folder))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--size", choices=SIZES, required=True)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    ray.init(address=options.address)
    TorchTrainer(
        train,
        train_loop_config={
            "size": options.size,
            "optimizer": options.optimizer,
            "folder": str(options.folder),
        },
        scaling_config=ScalingConfig(
            num_workers=(1, NUM_NODES),
            resources_per_worker={RESOURCE: 1},
            elastic_resize_monitor_interval_s=MONITOR_S,
        ),
        run_config=RunConfig(
            name="bench",
            storage_path=str(options.folder / "checkpoints"),
            failure_config=FailureConfig(max_failures=MAX_FAILURES),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()


if __name__ == "__main__":
    main()
