"""What can be saved and restored: schedulers, streams, and objects of a script's own."""

from __future__ import annotations

import random
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import torch


@runtime_checkable
class Stateful(Protocol):
    """What `scheduler`, the values of `state` and a stream that tells its place must offer."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> Any: ...


class GeneratorState:
    """A generator of random numbers, as an object that can be saved."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def state_dict(self) -> dict[str, Any]:
        generator = self._generator
        if isinstance(generator, random.Random):
            return {"state": generator.getstate()}
        if isinstance(generator, torch.Generator):
            return {"state": generator.get_state()}
        if isinstance(generator, np.random.RandomState):
            return {"state": generator.get_state(legacy=False)}
        return {"state": generator.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        generator, saved = self._generator, state["state"]
        if isinstance(generator, random.Random):
            generator.setstate(saved)
        elif isinstance(generator, torch.Generator):
            generator.set_state(saved.cpu())
        elif isinstance(generator, np.random.RandomState):
            generator.set_state(saved)
        else:
            generator.bit_generator.state = saved


GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, torch.Generator)


def as_stateful(thing: Any) -> Stateful:
    """The object itself, or a generator of random numbers as one that can be saved."""
    return GeneratorState(thing) if isinstance(thing, GENERATORS) else cast(Stateful, thing)
