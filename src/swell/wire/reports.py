"""`swell.report`: what a script tells of itself, and who takes it. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from typing import SupportsFloat

Receiver = Callable[[dict[str, float]], None]

#: The latest counts: none in a script that runs by itself.
_receivers: list[Receiver] = []


def report(**values: SupportsFloat) -> None:
    """Tell Swell what a training script measured: `swell.report(loss=0.31, accuracy=0.9)`.

    Rank 0's word counts. A value may be a number or a tensor with one element, and may be NaN or infinite. A
    name may be reported in each step: of many values in a short time the latest is told. Outside of a job the
    call has no effect.

    Raises:
        TypeError, ValueError: a value is no number.
    """
    numbers = {name: float(value) for name, value in values.items()}
    if _receivers:
        _receivers[-1](numbers)


def send_reports_to(receiver: Receiver) -> None:
    """Called by what runs the script."""
    _receivers.append(receiver)
