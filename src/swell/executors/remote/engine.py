"""The engine of a platform that machines join."""

from __future__ import annotations

from swell.executors.engine import InvalidEngine
from swell.executors.local.engine import LocalEngine


class JoinEngine(LocalEngine, kw_only=True):
    """Machines on which people start `swell node`, and this one."""

    name = "join"
    brings = "machines that join at --listen, and this one"

    def check(self, listen: str) -> None:
        if not listen:
            raise InvalidEngine(
                "--engine join: machines need an address to join at; add `--listen ADDRESS`, or choose "
                "`--engine local`"
            )
