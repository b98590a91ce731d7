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
    numbers = {name: _number(name, value) for name, value in values.items()}
    if _receivers:
        _receivers[-1](numbers)


def _number(name: str, value: SupportsFloat) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise ValueError(
            f"swell.report({name}=...): the number is too large; give one up to 1.7e308"
        ) from error
    except (TypeError, ValueError) as error:
        rule = "is not a number or a tensor with one element; leave out what is not known"
        raise type(error)(f"swell.report({name}={value!r:.80}) {rule}") from error


def send_reports_to(receiver: Receiver) -> None:
    """Called by what runs the script."""
    _receivers.append(receiver)
