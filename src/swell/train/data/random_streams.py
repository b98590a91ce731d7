"""Random numbers by place: what is drawn in a pass, or for a sample, does not depend on who draws it.

Torch's generators, Python's `random` and NumPy's old global generator are set anew wherever something begins
that must come out the same at any size. Generators that a script makes itself are its own affair.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import torch

from swell.train.data.sample_schedule import mix


class Purpose(IntEnum):
    """What random numbers are for: no two purposes share a stream."""

    SAMPLE = 1  #: a dataset's augmentation of one sample, by epoch and sample
    COLLATE = 2  #: a collate_fn's, by step and place
    PASS = 3  #: a model's and a loop's, by step and place
    BETWEEN = 4  #: whatever is drawn between two steps, by step: the same on all workers


class Stream(NamedTuple):
    """A generator that the whole process shares."""

    seed: Callable[[int], object]  #: takes 63 bits
    draw: Callable[[], float]


_number = torch.empty((), dtype=torch.float64, device="cpu")

STREAMS = (
    Stream(torch.default_generator.manual_seed, lambda: _number.uniform_().item()),
    Stream(random.seed, random.random),
    Stream(lambda seed: np.random.seed(seed & 0xFFFFFFFF), np.random.random_sample),
)


def seed_streams(device: torch.device, seed: int, purpose: Purpose, *place: int) -> None:
    """Set all streams of this process, a GPU's as well if `device` is one."""
    number = mix(seed, purpose.value, *place)
    for stream in STREAMS:
        stream.seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)
