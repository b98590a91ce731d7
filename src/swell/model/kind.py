"""Names of kinds of device: a gang has devices of one kind."""

from __future__ import annotations

import re

_FORM = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,78}[\x21-\x7e])?")
RULE = "at most 80 printable ASCII characters, no space first or last"


def is_kind(name: str) -> bool:
    """Whether a kind may be called so; `cuda:NVIDIA H200` is one."""
    return _FORM.fullmatch(name) is not None
