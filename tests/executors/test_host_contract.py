"""The contract of node hosts on machines that are made up. Real ones: `test_joined_host.py`."""

from __future__ import annotations

import errno
import os
import socket

import pytest
from tests.executors.fake_hosts import FakeHost
from tests.executors.host_contract import Heard, HostContract
from tests.executors.puppets import make_spec

from swell.executors.gang import host_messages as h
from swell.executors.local.agent.worker_processes import hold_port
from swell.model.event import Outcome
from swell.model.job import JobSpec


class FakeWorld:
    def __init__(self) -> None:
        self.heard: list[h.FromHost] = []
        self.devices: tuple[str, ...] = ("x/0", "x/1")
        self.host = FakeHost("x", None, self.heard.append)
        self.host.offer()
        self._refusal: tuple[Outcome, str] | None = None

    def tell(self, message: h.ToHost) -> None:
        self.host.refusal = self._refusal
        if isinstance(message, h.OpenRun) and "/" in message.job_id:
            self.host.refusal = Outcome.FAILED, "no folder can be called so"
        self.host.tell(message)

    def wait(self, kind: type[Heard], num: int = 1) -> Heard:
        return [message for message in self.heard if isinstance(message, kind)][num - 1]

    def meet_new_controller(self) -> None:
        self.host.meet_new_controller()

    def allow_no_ports(self) -> None:
        self._refusal = Outcome.LOST, os.strerror(errno.EMFILE)

    def make_job(self) -> JobSpec:
        return make_spec()


class TestFakeHost(HostContract):
    @pytest.fixture
    def world(self) -> FakeWorld:
        return FakeWorld()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_port_that_was_found_is_kept_for_rank_0(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with hold_port(address) as held:
        port = held.getsockname()[1]
        with socket.socket(family) as other, pytest.raises(OSError, match="in use"):
            other.bind((address, port))
        with socket.create_server((address, port), family=family):
            pass
