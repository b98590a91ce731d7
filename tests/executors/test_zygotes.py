"""Each interpreter that jobs ask for has a zygote."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from swell.executors.local.zygote import zygotes
from swell.executors.local.zygote.launch import ZygoteProgram
from swell.executors.local.zygote.messages import Fork, WorkerAnswer
from swell.executors.local.zygote.zygotes import Zygotes


class FakeZygoteClient:
    made: list[FakeZygoteClient] = []

    def __init__(self, program: ZygoteProgram, hear: Callable[[WorkerAnswer], None]) -> None:
        self.preload, self.log, self.python = tuple(program.modules), program.log_path, program.python
        self.hear = hear
        self.done: list[str] = []
        self.made.append(self)

    def start(self) -> None:
        self.done.append("start")

    def fork(self, request: Fork) -> None:
        self.done.append(f"fork {request.key}")

    def signal(self, key: str, number: int) -> None:
        self.done.append(f"signal {key}")

    async def shut_down(self, reap_s: float = 0.0) -> None:
        self.done.append("shut down")


def request(key: str) -> Fork:
    return Fork(key=key, environ={}, workdir="/", log_path="/dev/null", call="a:b", entry="c", args=())


def test_each_interpreter_has_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(zygotes, "ZygoteClient", FakeZygoteClient)
    monkeypatch.setattr(FakeZygoteClient, "made", [])

    async def run() -> None:
        pool = Zygotes(("torch.distributed", "swell.train", "sklearn.datasets"), tmp_path, 3, lambda _: None)
        pool.start()
        pool.fork(request("own/0"), "")
        pool.fork(request("own/1"), sys.executable)
        for worker in (0, 1):
            pool.fork(request(f"other/{worker}"), "/env/bin/python")
        own, other = FakeZygoteClient.made
        assert own.done == ["start", "fork own/0", "fork own/1"]
        assert (other.python, other.preload) == ("/env/bin/python", ("torch.distributed", "swell.train"))
        assert other.log != own.log
        pool.signal("own/0", signal.SIGTERM)
        pool.signal("other/1", signal.SIGTERM)
        assert own.done[-2:] == other.done[-2:] == ["signal own/0", "signal other/1"], (
            "whose it is acts on it"
        )
        await pool.shut_down()
        assert [each.done[-1] for each in FakeZygoteClient.made] == ["shut down"] * 2

    asyncio.run(run())
