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

from swell.train.data.seeds import mix


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


class MadeGenerators(NamedTuple):
    """How a script makes generators of its own."""

    default_rng: Callable[..., np.random.Generator]
    random_state: type[np.random.RandomState]
    seed_random: Callable[..., None]


_CPU = torch.device("cpu")
_OWN_GENERATORS = MadeGenerators(np.random.default_rng, np.random.RandomState, random.Random.seed)
_number = torch.empty((), dtype=torch.float64, device="cpu")

STREAMS = (
    Stream(torch.default_generator.manual_seed, lambda: _number.uniform_().item()),
    Stream(random.seed, random.random),
    Stream(lambda seed: np.random.seed(seed & 0xFFFFFFFF), np.random.random_sample),
)


def seed_streams(device: torch.device, seed: int, purpose: Purpose, *place: int) -> None:
    """Set all streams of this process, a GPU's as well if `device` is one."""
    number = mix(seed, purpose, *place)
    for stream in STREAMS:
        stream.seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)


class _AnyRandomState(type):
    """The type of a class that stands for NumPy's own: libraries ask whether a generator is of it."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _OWN_GENERATORS.random_state)


def begin_script(device: torch.device, seed: int) -> None:
    """Have all workers of a job draw the same until `end_script`, now and when the job goes on later.

    A script that splits its data at random, or shuffles a list of files, does it in the same way everywhere.
    """
    seed_streams(device, seed, Purpose.SCRIPT)
    _use(_seeded_generators(seed, Purpose.SCRIPT))


def end_script() -> None:
    """Let generators without a seed be their own from `elastic` on: loader processes must not share one."""
    _use(_OWN_GENERATORS)


def drawing_state(device: torch.device, *seeded: int) -> list[bytes]:
    """State of all streams of this process: of now, or as they are when set by `seeded`.

    `seeded`: what `seed_streams` is given after the device. The streams are left as they are.
    """
    before = stream_states()
    on_device = torch.cuda.get_rng_state() if device.type == "cuda" else None
    if seeded:
        seed, purpose, *place = seeded
        seed_streams(device, seed, Purpose(purpose), *place)
    of_torch, of_python, of_numpy = stream_states()
    state = [
        of_torch.numpy().tobytes(),
        repr(of_python).encode(),
        of_numpy[1].tobytes() + repr(of_numpy[2:]).encode(),
    ]
    if on_device is not None:
        state.append(torch.cuda.get_rng_state().numpy().tobytes())
        torch.cuda.set_rng_state(on_device)
    set_stream_states(before)
    return state


@contextmanager
def borrowed_streams(seed: int, purpose: Purpose, *place: int) -> Iterator[None]:
    """Have this process draw what the place says, also from generators without a seed, and then as before."""
    states = stream_states()
    generators = MadeGenerators(np.random.default_rng, np.random.RandomState, random.Random.seed)
    seed_streams(_CPU, seed, purpose, *place)
    _use(_seeded_generators(seed, purpose, *place))
    try:
        yield
    finally:
        _use(generators)
        set_stream_states(states)


def _seeded_generators(seed: int, purpose: Purpose, *place: int) -> MadeGenerators:
    """Ways to make generators, each of which has a seed of its own where the script gives none."""
    numbers = count()

    def or_next(seed_of_script: Any) -> Any:
        return mix(seed, purpose.value, *place, next(numbers)) if seed_of_script is None else seed_of_script

    @wraps(_OWN_GENERATORS.default_rng)
    def default_rng(seed_of_script: Any = None) -> np.random.Generator:
        return _OWN_GENERATORS.default_rng(or_next(seed_of_script))

    class RandomState(_OWN_GENERATORS.random_state, metaclass=_AnyRandomState):  # type: ignore[misc, name-defined]
        __module__ = _OWN_GENERATORS.random_state.__module__

        def __init__(self, seed_of_script: Any = None) -> None:
            own = or_next(seed_of_script)
            super().__init__(own & 0xFFFFFFFF if seed_of_script is None else own)

    @wraps(_OWN_GENERATORS.seed_random)
    def seed_random(self: random.Random, *args: Any, **kwargs: Any) -> None:
        is_own = args in ((), (None,)) and not any(kwargs.values())
        _OWN_GENERATORS.seed_random(self, *((or_next(None),) if is_own else args), **kwargs)

    return MadeGenerators(default_rng, RandomState, seed_random)


def _use(generators: MadeGenerators) -> None:
    np.random.default_rng = generators.default_rng
    np.random.RandomState = generators.random_state  # type: ignore[misc]
    random.Random.seed = generators.seed_random  # type: ignore[method-assign]


def stream_states() -> tuple[Any, ...]:
    """Where the streams of this process are: of torch, Python and NumPy."""
    return torch.get_rng_state(), random.getstate(), np.random.get_state()


def set_stream_states(states: tuple[Any, ...]) -> None:
    """Have the streams go on from there."""
    of_torch, of_python, of_numpy = states
    torch.set_rng_state(of_torch.to(_CPU))
    random.setstate(of_python)
    np.random.set_state(of_numpy)


def has_drawn_since(states: tuple[Any, ...]) -> bool:
    """Whether a stream of this process has moved on."""
    of_torch, of_python, (_, *of_numpy) = states
    torch_now, python_now, (_, *numpy_now) = stream_states()
    is_same = torch.equal(of_torch, torch_now) and of_python == python_now
    return not (is_same and all(np.array_equal(*pair) for pair in zip(of_numpy, numpy_now, strict=True)))
