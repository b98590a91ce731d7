"""The state of an optimizer (`optimizer.state`) between steps, where each worker has a part of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

AWAY = (
    "the script uses optimizer.state between steps, of which each worker has a part (shard=...) and which is "
    "empty there; read the whole one from a checkpoint with swell.train.load_checkpoint(folder), or take "
    "shard out"
)
#: Methods by which a script could read or change it.
METHODS = (
    *("__contains__", "__delitem__", "__getitem__", "__iter__", "__setitem__", "clear", "get", "items"),
    *("keys", "pop", "popitem", "setdefault", "update", "values"),
)


class AwayState(defaultdict[Any, Any]):
    """The state where it is not there: it is empty, and refuses a script that would use it."""

    def __init__(self, is_asked: Callable[[], bool]) -> None:
        """`is_asked`: whether Swell asks, which knows that it is empty."""
        super().__init__(dict)
        self.is_asked = is_asked


def _refused(name: str) -> Callable[..., Any]:
    method = getattr(defaultdict, name)

    def refuse(self: AwayState, *args: Any, **options: Any) -> Any:
        if not self.is_asked():
            raise RuntimeError(AWAY)
        return method(self, *args, **options)

    return refuse


for _name in METHODS:
    setattr(AwayState, _name, _refused(_name))
