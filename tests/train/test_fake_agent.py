"""The agent of these tests hears all that a worker has said before it tells how it ended."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.train.fake_agent import TOKEN, FakeAgent

from swell.wire import messages


class Ended:
    """A process that ends as soon as it is waited for."""

    exitcode = 0

    def join(self, limit_s: float | None = None) -> None: ...
    def kill(self) -> None: ...
    def close(self) -> None: ...


def test_last_words_are_heard_before_the_exit_is_told(
    start_agent: Callable[..., FakeAgent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine its thread comes to read them only when the process has ended."""
    agent, is_waited_for = start_agent(), threading.Event()
    hear, wait_for = agent._hear, agent._news.wait_for

    def hear_late(*heard: Any) -> None:
        is_waited_for.wait()
        hear(*heard)

    def wait(condition: Callable[[], bool], limit_s: float) -> bool:
        is_waited_for.set()
        return wait_for(condition, limit_s)

    monkeypatch.setattr(agent, "_hear", hear_late)
    host, _, port = agent.address.rpartition(":")
    with socket.create_connection((host, int(port))) as line:
        agent.processes[0] = Ended()  # type: ignore[assignment]
        for said in (messages.Hello(token=TOKEN, worker=0, pid=1), messages.Finished(steps=5)):
            line.sendall(msgspec.json.encode(said) + b"\n")
        line.recv(1)  # its welcome: it is known
    monkeypatch.setattr(agent._news, "wait_for", wait)
    try:
        assert agent.exit_status(0) == 0
        assert agent.all_said(messages.Finished)
    finally:
        is_waited_for.set()
