"""Attach to a session that listens at a port: `python -m ... HOST PORT TOKEN`."""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import swell
from swell.cli.sessions import AttachedTerminal


class Platform:
    """Says where the session is."""

    def __enter__(self) -> "Platform":
        return self

    def __exit__(self, *_: object) -> None: ...

    def job(self, _job_id: str) -> Any:
        return SimpleNamespace(phase=SimpleNamespace(is_end=False))

    def terminal(self, _job_id: str) -> Any:
        host, port, token = sys.argv[1:]
        return SimpleNamespace(host=host, port=int(port), token=token)

    async def open_terminal(self, _job_id: str, address: Any) -> Any:
        return await asyncio.open_connection(address.host, address.port)


if __name__ == "__main__":
    swell.connect = lambda state: Platform()  # type: ignore
    sys.exit(AttachedTerminal(None, "dev-1").run())
