"""The engine of a platform on one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from swell.executors.engine import Engine

if TYPE_CHECKING:
    from swell.model.finding import Finding


class LocalEngine(Engine, kw_only=True):
    """This machine. Others may join where `--listen` names an address."""

    name = "local"
    brings = "this machine, and with --listen those that join"
    is_joined_by_hand = True
    devices = "auto"

    def encoded(self) -> str:
        return ""

    def findings(self, listen: str) -> list[Finding]:
        """Whether hosts could join at the address."""
        if not listen:
            return []
        import socket

        from swell.model.finding import bad, ok

        host = listen[1:].partition("]")[0] if listen.startswith("[") else listen.partition(":")[0]
        try:
            family, kind, *_, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, kind) as tried:
                tried.bind(address)
        except OSError as error:
            text = f"cannot join at {listen} ({error.strerror or error})"
            return [bad("hosts", text, "name an address of this machine with --listen")]
        return [ok("hosts", f"can join at {listen}")]
