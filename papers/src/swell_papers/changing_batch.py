"""Training of the digits network with a batch that changes from epoch to epoch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from swell.demo.cnn import accuracy, build_model
from swell.demo.digits import digits
from swell.train.scaling import RULES

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
    factor = (lambda scale: 1.0) if rule == NO_RULE else RULES[rule]
    updates = 0
    for epoch, batch in enumerate(batches):
        num_falls = sum(epoch >= fall * len(batches) for fall in FALLS)
        for places in torch.randperm(len(x)).split(batch):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[places]), y[places]).backward()
            rate = LEARNING_RATE * 0.1**num_falls
            optimizer.param_groups[0]["lr"] = rate * factor(len(places) / BASE_BATCH)
            optimizer.step()
            updates += 1
    return accuracy(model, images, labels), updates
