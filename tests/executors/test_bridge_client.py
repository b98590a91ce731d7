"""The agent keeps a bridge, whatever becomes of one, and orders nothing from one that has not connected."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path

import pytest

from swell.executors.ray import bridge_client
from swell.executors.ray import messages as r
from swell.executors.ray.bridge_client import BridgeClient, CannotConnect
from swell.executors.ray.options import RayOptions

LIMIT_S = 30.0
#: Says whether an order came before its first word; then it ends at each order.
BRIDGE = """
import select, sys
order = "early" if select.select([0], [], [], 0.3)[0] else "none"
print('{"type":"Connected","address":"%s","held":{}}' % order, flush=True)
sys.stdin.readline()
"""


class Keeping(BridgeClient):
    """Its bridges are small programs."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__("p", RayOptions(), self.take)
        self.heard: asyncio.Queue[r.FromBridge] = asyncio.Queue()
        self.errors: list[Exception] = []  #: of the next starts, and of hearing
        self.num_begun = 0
        self._script = tmp_path / "bridge.py"
        self._script.write_text(BRIDGE)

    def take(self, message: r.FromBridge) -> None:
        self.heard.put_nowait(message)
        if self.errors:
            raise self.errors.pop()

    async def _begin(self) -> asyncio.subprocess.Process:
        self.num_begun += 1
        if self.errors and isinstance(self.errors[-1], OSError):
            raise self.errors.pop()
        pipe = asyncio.subprocess.PIPE
        begun = await asyncio.create_subprocess_exec(
            sys.executable, "-S", str(self._script), stdin=pipe, stdout=pipe
        )
        self._process = begun
        self.order(r.ReturnDevice(node="n1", device="n1/0"))  # as when a worker ends just then
        return begun

    async def end_bridge(self) -> r.FromBridge:
        """Returns what the next one says first."""
        self.order(r.ReturnAll())
        return await self.heard.get()

    async def take_process(self) -> asyncio.subprocess.Process:
        """Of the bridge that is being started."""
        while self._process is None or self._process.returncode is not None:
            await asyncio.sleep(0.001)
        return self._process


def _run(what: Coroutine[None, None, None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_client, "FIRST_PAUSE_S", 0.01)
    asyncio.run(asyncio.wait_for(what, LIMIT_S))


def test_a_bridge_gets_no_order_before_it_has_connected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keep() -> None:
        client = Keeping(tmp_path)
        none = r.Connected(address="none", held={})
        assert await client.connect() == none
        assert await client.end_bridge() == none
        await client.return_all()

    _run(keep(), monkeypatch)


def test_a_bridge_is_started_again_after_any_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def keep() -> None:
        client = Keeping(tmp_path)
        await client.connect()
        client.errors = [KeyError("of our own"), OSError(11, "Resource temporarily unavailable")]
        assert isinstance(await client.end_bridge(), r.Connected)
        assert isinstance(await client.heard.get(), r.Connected), "after the error there is another one"
        assert client.num_begun == 4
        await client.return_all()

    _run(keep(), monkeypatch)
    assert "cannot be started (Resource temporarily unavailable)" in caplog.text
    assert "of our own" in caplog.text


def test_a_bridge_that_has_yet_to_connect_gives_all_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keep() -> None:
        client = Keeping(tmp_path)
        await client.connect()
        begun = client.num_begun
        client.order(r.ReturnAll())
        while client.num_begun == begun:
            await asyncio.sleep(0.001)
        process = await client.take_process()
        await client.return_all()
        assert process.returncode == 0, "it has read the order, and was not killed"

    _run(keep(), monkeypatch)


def test_a_first_bridge_that_cannot_be_started_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def keep() -> None:
        client = Keeping(tmp_path)
        client.errors = [OSError(12, "Cannot allocate memory")]
        with pytest.raises(CannotConnect, match="Cannot allocate memory"):
            await client.connect()

    _run(keep(), monkeypatch)
