"""Training of the digits network with a batch that changes from epoch to epoch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from swell.demo.cnn import accuracy, build_model
from swell.demo.digits import digits
from swell.train.scaling import PartNorms, ScaledRate

#: Samples a step that the learning rate was chosen for.
BASE_BATCH = 64
LEARNING_RATE, MOMENTUM = 0.05, 0.9
#: The learning rate falls to a tenth after each of these shares of the run's epochs.
FALLS = (0.6, 0.85)
#: The rule that leaves the learning rate as it is.
NO_RULE = "none"


def train_once(batches: Sequence[int], rule: str, seed: int) -> tuple[float, int]:
    """Train from a seed, with so many samples a step in each epoch.

    Returns: the accuracy after the last one, and how many updates there were.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # for the same figures on every machine
    data, images, labels = digits()
    x, y = data.tensors
    model = build_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM)
    rate = None if rule == NO_RULE else ScaledRate(optimizer, BASE_BATCH, rule)
    updates = 0
    for epoch, batch in enumerate(batches):
        num_falls = sum(epoch >= fall * len(batches) for fall in FALLS)
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * 0.1**num_falls
        for places in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            if rate is not None:
                rate.batch = len(places)
            if rate is not None and rate.needs_parts and len(places) > 1:
                _show_parts(rate, model, x[places], y[places])
            else:
                nn.functional.cross_entropy(model(x[places]), y[places]).backward()
            optimizer.step()
            updates += 1
    return accuracy(model, images, labels), updates


def _show_parts(rate: ScaledRate, model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Compute the gradient of a batch as the sum of two parts', and show the rule how far these lie apart."""
    squared, before = 0.0, torch.zeros(())
    parts = list(zip(x.tensor_split(2), y.tensor_split(2), strict=True))
    for a, b in parts:
        share = len(a) / len(x)
        (share * nn.functional.cross_entropy(model(a), b)).backward()
        after = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        squared += float(((after - before) / share).square().sum()) * share
        before = after
    rate.observe_parts(PartNorms(squared, len(parts), len(x)), float(before.square().sum()))
