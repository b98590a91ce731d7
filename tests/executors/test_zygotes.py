"""Interpreters that jobs ask for have zygotes as long as they have workers."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from swell.executors.local.zygote import zygotes
from swell.executors.local.zygote.launch import ZygoteProgram
from swell.executors.local.zygote.messages import Exited, Fork, WorkerAnswer
from swell.executors.local.zygote.zygotes import IDLE_S, Zygotes


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


def test_each_interpreter_has_one_and_one_that_idles_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(zygotes, "ZygoteClient", FakeZygoteClient)
    monkeypatch.setattr(FakeZygoteClient, "made", [])
    exits: list[str] = []

    def hear(answer: WorkerAnswer) -> None:
        exits.append(answer.key)

    async def run() -> None:
        pool = Zygotes(("torch.distributed", "swell.train", "sklearn.datasets"), tmp_path, 3, hear)
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
        assert (own.done[-1], other.done[-1]) == ("signal own/0", "signal other/1")
        pool.tick(0.0)
        other.hear(Exited(key="other/0", status=0))
        pool.tick(2 * IDLE_S)  # the other worker lives
        other.hear(Exited(key="other/1", status=0))
        own.hear(Exited(key="own/0", status=0))
        pool.tick(3 * IDLE_S)
        assert "shut down" not in other.done
        pool.tick(3 * IDLE_S + 1)
        await asyncio.sleep(0)
        assert other.done[-1] == "shut down" and "shut down" not in own.done
        pool.signal("other/1", signal.SIGTERM)  # of one that is gone: no effect
        pool.fork(request("other/2"), "/env/bin/python")
        await pool.shut_down()
        assert [each.done[-1] for each in FakeZygoteClient.made] == ["shut down"] * 3

    asyncio.run(run())
    assert exits == ["other/0", "other/1", "own/0"]
