"""Loops that make their own batches are refused: each worker would draw all of a batch for itself."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

OWN_BATCHES = (
    "the loop over run.batches() does not use the batch that it gets, and draws random numbers in its "
    "place: each worker would draw a whole batch of its own, so that a step had more samples on more "
    "workers. Put what makes a batch (get_batch, or the like) into a torch Dataset that gives one sample, "
    "with a DataLoader that has batch_size and, to draw with replacement, sampler=RandomSampler(dataset, "
    "replacement=True, num_samples=...)"
)


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
