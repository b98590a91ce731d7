"""Parameters that a run has trained so far: a script may freeze some, and unfreeze others later.

They only become more, so that buffers of a step have the same parts on all workers, whenever those came.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import nn

_MARK = "_swell_has_trained"


def mark_trained(parameters: Iterable[nn.Parameter]) -> None:
    for parameter in parameters:
        setattr(parameter, _MARK, True)


def was_trained(parameter: nn.Parameter) -> bool:
    return hasattr(parameter, _MARK)
