"""Finds that a script trains on other batches than those of the loader that it gave to `elastic`.

It may make another DataLoader in its place, while `run.batches()` goes on with the first one; or leave the
batches unused, and draw its own. Without this `tests/scripts/refused/loader_replaced.py` goes wrong in
silence.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from torch.utils.data import DataLoader

from swell.train.collective.gradients import LoopError
from swell.train.link.code_paths import user_frames

OWN_BATCHES = (
    "the loop over run.batches() does not use the batch that it gets, and draws random numbers in its "
    "place: each worker would draw a whole batch of its own, so that a step had more samples on more "
    "workers. Put what makes a batch (get_batch, or the like) into a torch Dataset that gives one sample, "
    "with a DataLoader that has batch_size and, to draw with replacement, sampler=RandomSampler(dataset, "
    "replacement=True, num_samples=...)"
)


class LoaderWatch:
    """The variables in which a script has the loader of `elastic`."""

    def __init__(self, loader: DataLoader[Any], frame: FrameType | None) -> None:
        """
        Args:
            frame: the script's function that calls `elastic`.
        """
        self._loader = loader
        self._variables = self._holding(frame)
        self._has_looked = False

    def look(self, frame: FrameType | None) -> None:
        """The script asks for the first batch of an epoch. Raises LoopError: it means another loader."""
        if not self._has_looked:
            self._has_looked = True
            self._variables |= self._holding(frame)
        for function, name, now in _loaders(frame):
            is_other = (function, name) in self._variables and now is not self._loader
            if is_other and not self._is_alike(now):
                raise LoopError(
                    f"`{name}` holds another DataLoader than elastic() got, and run.batches() goes on with "
                    "that one. Give elastic() one loader of all the data, with a sampler whose "
                    "set_epoch(epoch), which is called, chooses what the epoch has; or give this one another "
                    "name"
                )

    def _holding(self, frame: FrameType | None) -> set[tuple[str, str]]:
        return {(function, name) for function, name, held in _loaders(frame) if held is self._loader}

    def _is_alike(self, loader: DataLoader[Any]) -> bool:
        """Whether it loads the same samples in batches of the same size."""
        own = self._loader
        return (
            loader.dataset is own.dataset
            and loader.batch_size == own.batch_size
            and loader.drop_last == own.drop_last
            and loader.collate_fn == own.collate_fn
            and type(loader.sampler) is type(own.sampler)
            and type(loader.batch_sampler) is type(own.batch_sampler)
        )


def _loaders(frame: FrameType | None) -> Iterator[tuple[str, str, DataLoader[Any]]]:
    """Yield the loaders in variables of the script's functions and modules, with the names of both."""
    for user in user_frames(frame):
        for scope, space in (
            (user.f_globals["__name__"], user.f_globals),
            (user.f_code.co_name, user.f_locals),
        ):
            for name, value in [*space.items()]:
                if isinstance(value, DataLoader):
                    yield scope, name, value


def is_unused(frame: FrameType | None, batch: Any) -> bool:
    """Whether the code of a loop keeps its batch in variables that it never reads.

    False where it keeps it in none that can be seen.
    """
    if frame is None:
        return False
    parts = [batch, *_parts(batch)]
    names = {name for name, value in frame.f_locals.items() if any(value is part for part in parts)}
    return bool(names) and names.isdisjoint(_read_by(frame.f_code))


def _parts(batch: Any) -> list[Any]:
    if isinstance(batch, dict):
        return list(batch.values())
    return list(batch) if isinstance(batch, list | tuple) else []


def _read_by(code: CodeType) -> Iterator[str]:
    """Names that a function reads, and the functions that are made in it."""
    for step in dis.get_instructions(code):
        if step.opname.startswith("LOAD_"):
            yield from step.argval if isinstance(step.argval, tuple) else [str(step.argval)]
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _read_by(part)
