"""What can be saved and restored: schedulers, streams, and objects of a script's own."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stateful(Protocol):
    """What `scheduler`, the values of `state` and a stream that tells its place must offer."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> Any: ...
