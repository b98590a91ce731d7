"""Swell: elastic training for PyTorch. Deadlines that are promises, resizes inside live processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from swell.api.client import InvalidJob as InvalidJob
    from swell.api.client import NoPlatform as NoPlatform
    from swell.api.client import Unavailable as Unavailable
    from swell.api.client import UnknownJob as UnknownJob
    from swell.api.client import connect as connect
    from swell.wire.reports import link as link
    from swell.wire.reports import report as report

__version__ = "0.1.0"

#: What a user of the platform needs. Training scripts import this package too, for `report`, and need no HTTP
#: client.
_LAZY = ("connect", "InvalidJob", "NoPlatform", "Unavailable", "UnknownJob")


def __getattr__(name: str) -> object:
    if name in _LAZY:
        from swell.api import client

        return getattr(client, name)
    if name in ("link", "report"):
        from swell.wire import reports

        return getattr(reports, name)
    raise AttributeError(f"module 'swell' has no attribute {name!r}")
