"""Devices of a slice, as the head counts them without having them."""

from __future__ import annotations

import re

_FORM = re.compile(r"(?:cuda|cpu):(?P<num>[0-9]{1,4})|paced:(?P<paced>[0-9]{1,4})@[0-9]+(?:\.[0-9]+)?")


class InvalidSlice(ValueError):
    """No slice can have these devices; the text names the forms."""


def count_devices(text: str) -> int:
    """Return how many devices `cuda:N`, `cpu:N` or `paced:N@RATE` names. Raises InvalidSlice."""
    found = _FORM.fullmatch(text.partition("/")[0])
    if found is None:
        raise InvalidSlice("a slice has a number of devices; write cuda:N, cpu:N or paced:N@RATE")
    return int(found["num"] or found["paced"])
