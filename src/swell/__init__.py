"""Swell: elastic training for PyTorch. Deadlines that are promises, resizes inside live processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swell.api.client import connect as connect

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    # Training scripts import this package too, and need no HTTP client.
    if name == "connect":
        from swell.api.client import connect

        return connect
    raise AttributeError(f"module 'swell' has no attribute {name!r}")
