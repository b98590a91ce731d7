"""Random numbers by place: what is drawn in a pass, or for a sample, does not depend on who draws it.

Torch's generators, Python's `random` and NumPy's old global generator are set again wherever something begins
that must come out the same at any size: the script itself, then each step and each sample. Generators that a
script makes itself are its own affair, but those that it makes without a seed draw the same on all workers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import wraps
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch


class Purpose(IntEnum):
    """What random numbers are for: no two purposes share a stream."""

    SAMPLE = 1  #: a dataset's augmentation of one sample, by epoch and sample
    COLLATE = 2  #: a collate_fn's, by step and place
    PASS = 3  #: a model's and a loop's, by step and place
    BETWEEN = 4  #: whatever is drawn between two steps, by step: the same on all workers
    SCRIPT = 5  #: whatever is drawn before `elastic`: the same on all workers, at every start
    ORDER = 6  #: a script's own sampler's, by epoch


class Stream(NamedTuple):
    """A generator that the whole process shares."""

    seed: Callable[[int], object]  #: takes 63 bits
    draw: Callable[[], float]


_CPU = torch.device("cpu")
_numpy_seeds: Any = np.random.bit_generator  # its types lack `randbits`, from which seeds come
#: Where generators that a script makes without a seed get one: NumPy's, and Python's.
Seeding = tuple[Callable[[int], int], Callable[..., None]]
_OF_SYSTEM: Seeding = _numpy_seeds.randbits, random.Random.seed
_number = torch.empty((), dtype=torch.float64, device="cpu")

STREAMS = (
    Stream(torch.default_generator.manual_seed, lambda: _number.uniform_().item()),
    Stream(random.seed, random.random),
    # The same algorithm as torch's, which takes the other half of the bits: of one seed both would toss the
    # same coins.
    Stream(lambda seed: np.random.seed(seed >> 31), np.random.random_sample),
)


def seed_streams(device: torch.device, seed: int, purpose: Purpose, *place: int) -> None:
    """Set all streams of this process, a GPU's as well if `device` is one."""
    number = mix(seed, purpose, *place)
    for stream in STREAMS:
        stream.seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)


def begin_script(device: torch.device, seed: int) -> None:
    """Have all workers of a job draw the same until `end_script`, now and when the job goes on later.

    A script that splits its data at random, or shuffles a list of files, does it in the same way everywhere.
    """
    seed_streams(device, seed, Purpose.SCRIPT)
    _use(_seeded(seed, Purpose.SCRIPT))


def end_script() -> None:
    """Let generators without a seed be their own from `elastic` on: loader processes must not share one."""
    _use(_OF_SYSTEM)


@contextmanager
def borrowed_streams(seed: int, purpose: Purpose, *place: int) -> Iterator[None]:
    """Have this process draw what the place says, also from generators without a seed, and then as before."""
    states = stream_states()
    seeding = _numpy_seeds.randbits, random.Random.seed
    seed_streams(_CPU, seed, purpose, *place)
    _use(_seeded(seed, purpose, *place))
    try:
        yield
    finally:
        _use(seeding)
        set_stream_states(states)


def _seeded(seed: int, purpose: Purpose, *place: int) -> Seeding:
    """Each generator that the script makes without a seed has one of its own."""
    numbers, seed_by_system = count(), _OF_SYSTEM[1]

    def next_seed() -> int:
        return mix(seed, purpose.value, *place, next(numbers))

    @wraps(seed_by_system)
    def seed_random(self: random.Random, *args: Any, **kwargs: Any) -> None:
        is_own = args in ((), (None,)) and not any(kwargs.values())
        seed_by_system(self, *((next_seed(),) if is_own else args), **kwargs)

    return lambda num_bits: next_seed(), seed_random


def _use(seeding: Seeding) -> None:
    _numpy_seeds.randbits, random.Random.seed = seeding  # type: ignore[method-assign]


def stream_states(device: torch.device = _CPU) -> tuple[Any, ...]:
    """Where the streams of this process are: of torch, Python and NumPy, and of a GPU if `device` is one."""
    own = torch.get_rng_state(), random.getstate(), np.random.get_state()
    return (*own, torch.cuda.get_rng_state()) if device.type == "cuda" else own


def set_stream_states(states: tuple[Any, ...]) -> None:
    """Have the streams go on from there."""
    of_torch, of_python, of_numpy, *of_gpu = states
    torch.set_rng_state(of_torch.to(_CPU))
    random.setstate(of_python)
    np.random.set_state(of_numpy)
    for state in of_gpu:
        torch.cuda.set_rng_state(state)


def apart(one: tuple[Any, ...], other: tuple[Any, ...]) -> set[str]:
    """Return which of `torch`, `random` and `numpy` are elsewhere in one state than in the other."""
    pairs = zip(("torch", "random", "numpy", "torch"), one, other, strict=False)
    return {name for name, before, now in pairs if not _is_same(before, now)}


def drawn_from(device: torch.device, seed: int, purpose: Purpose, *place: int) -> set[str]:
    """Name what has drawn since `seed_streams` was called with these; the streams are left as they are."""
    states = stream_states(device)
    seed_streams(device, seed, purpose, *place)
    names = apart(states, stream_states(device))
    set_stream_states(states)
    return names


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


def mix(*parts: int) -> int:
    """One 63-bit seed of several numbers, with no simple relation between neighbours (SplitMix64's steps)."""
    state = 0
    for part in parts:
        state = (state ^ (part & 0xFFFFFFFFFFFFFFFF)) + 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        state = (state ^ (state >> 27)) * 0x94D049BB133111EB & 0xFFFFFFFFFFFFFFFF
        state ^= state >> 31
    return state >> 1
