"""The engine of a platform on one machine."""

from __future__ import annotations

from swell.executors.engine import Engine


class LocalEngine(Engine, kw_only=True):
    """This machine. Others may join where `--listen` names an address."""

    name = "local"
    brings = "this machine, and with --listen those that join"
    is_joined_by_hand = True
    devices = "auto"

    def encoded(self) -> str:
        return ""
