"""Random numbers by place: what is drawn in a pass, or for a sample, does not depend on who draws it.

Torch's generators, Python's `random` and NumPy's old global generator are set anew wherever something begins
that must come out the same at any size: the script itself, then each step and each sample. Generators that a
script makes itself are its own affair, but where it gives them no seed all workers draw the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from enum import IntEnum
from functools import wraps
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch

from swell.train.data.sample_schedule import mix


class Purpose(IntEnum):
    """What random numbers are for: no two purposes share a stream."""

    SAMPLE = 1  #: a dataset's augmentation of one sample, by epoch and sample
    COLLATE = 2  #: a collate_fn's, by step and place
    PASS = 3  #: a model's and a loop's, by step and place
    BETWEEN = 4  #: whatever is drawn between two steps, by step: the same on all workers
    SCRIPT = 5  #: whatever is drawn before `elastic`: the same on all workers, at every start


class Stream(NamedTuple):
    """A generator that the whole process shares."""

    seed: Callable[[int], object]  #: takes 63 bits
    draw: Callable[[], float]


_default_rng = np.random.default_rng
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


def begin_script(device: torch.device, seed: int) -> None:
    """Have all workers of a job draw the same until `end_script`, now and when the job goes on later.

    A script that splits its data at random, or shuffles a list of files, does it in the same way everywhere.
    """
    seed_streams(device, seed, Purpose.SCRIPT)
    numbers = count()

    def default_rng(seed_of_script: Any = None) -> np.random.Generator:
        own = mix(seed, Purpose.SCRIPT.value, next(numbers)) if seed_of_script is None else seed_of_script
        return _default_rng(own)

    np.random.default_rng = wraps(_default_rng)(default_rng)  # type: ignore[assignment]


def end_script() -> None:
    """Let generators without a seed be their own from `elastic` on: loader processes must not share one."""
    np.random.default_rng = _default_rng
