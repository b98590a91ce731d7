"""Names of kinds of device: a gang has devices of one kind."""

from __future__ import annotations

import re

_FORM = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:@/+(),-]{0,78}[A-Za-z0-9._:@/+(),-])?")
#: In a request: whichever kind of the platform suits the job.
ANY = "any"
RULE = "at most 80 letters, digits, spaces and . _ : @ / + ( ) , - and begins with a letter or digit"


def is_kind(name: str) -> bool:
    """Whether a kind may be called so; `cuda:NVIDIA H200` is one."""
    return _FORM.fullmatch(name) is not None
