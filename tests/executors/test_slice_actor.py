"""The host of a slice of Ray: its words and variables, and its end, which has a cause."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.executors.test_host_door import FakeController

from swell import __version__
from swell.executors.leases.lease_times import LeaseTimes
from swell.executors.local.agent.options import LOOPBACK
from swell.executors.node.options import read_options
from swell.executors.ray import slice_actor
from swell.executors.ray.slice_actor import SliceActor, host_environ, slice_words
from swell.executors.remote.certificate import fingerprint_of, make_certificate
from swell.executors.remote.host_door import HostDoor
from swell.executors.remote.join_listener import JoinListener
from swell.executors.remote.join_tokens import TokenList
from swell.executors.remote.lease_book import LeaseBook
from swell.executors.remote.opening import torch_version
from swell.executors.slices.order import SliceOrder
from swell.wire.unslewed_clocks import granter_now_s

ORDER = SliceOrder(platform="p1", join="h:1", token="t", devices="cpu:1")
LIMIT_S = 60.0
#: In place of a host.
SLEEPS = [sys.executable, "-c", "import time; time.sleep(1000)"]


def test_what_a_node_says_of_itself_its_host_says(tmp_path: Path) -> None:
    labels = {"rack": "r1", "kind": "h100", "ray.io/market-type": "spot", "ray.io/availability-zone": "z"}
    words = slice_words(ORDER, tmp_path, "n1-1", labels)
    options = read_options([*words[words.index("-m") + 2 :], "--token-file", "t"])
    assert (options.name, options.rack, options.kind, options.is_borrowed) == ("n1-1", "r1", "h100", True)
    words = slice_words(ORDER, tmp_path, "n1-1", {"ray.io/availability-zone": "z"})
    options = read_options([*words[words.index("-m") + 2 :], "--token-file", "t"])
    assert (options.rack, options.kind, options.is_borrowed) == ("z", "", False)


def test_a_host_sees_the_gpus_of_its_slice_and_nothing_that_is_rays() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "3,5", "OMP_NUM_THREADS": "1", "RAY_JOB_ID": "1", "HOME": "/h"}
    cuda = msgspec.structs.replace(ORDER, devices="cuda:2")
    assert host_environ(cuda, environ) == {
        "CUDA_VISIBLE_DEVICES": "3,5",
        "HOME": "/h",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert "CUDA_VISIBLE_DEVICES" not in host_environ(ORDER, environ), "they only pretend to be GPUs"


def test_a_node_whose_torch_is_another_than_the_platforms_says_which_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real host, which a platform with another torch refuses. Nothing of it is left on the disk."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(slice_actor, "_own_node", lambda: ("n1", {}))
    (tmp_path / "tmp").mkdir()

    async def end_of_host() -> tuple[str, str | None]:
        certificate, tokens = make_certificate(tmp_path), TokenList(tmp_path)
        book = LeaseBook(tmp_path, LeaseTimes(), granter_now_s)
        door = HostDoor(FakeController(), book, "head", torch="1.0.9")
        listener = JoinListener(certificate, tokens, __version__, door.joined, door.why_not)
        join = f"{LOOPBACK}:{await listener.listen(LOOPBACK)}"
        token = str(tokens.add("ray", fingerprint_of(certificate)))
        actor = SliceActor(msgspec.structs.replace(ORDER, join=join, token=token), 7)
        try:
            async with asyncio.timeout(LIMIT_S):
                while (found := actor.look())[1] is None:
                    await asyncio.sleep(0.01)
            return found
        finally:
            await listener.close()

    node, why = asyncio.run(end_of_host())
    assert node == "n1" and why is not None
    assert why.partition(" refuses: ")[2] == (
        f"host 'n1-7' has torch {torch_version()}, this platform has torch 1.0.9; workers of one job need "
        "the same version: install torch 1.0.9 on the host"
    )
    assert not list((tmp_path / "tmp" / f"swell-ray-{os.getuid()}" / "p1").iterdir())


def test_a_host_ends_with_its_actor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the kernel had closed what connects its guard with an actor that was killed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(slice_actor, "_own_node", lambda: ("n1", {}))
    monkeypatch.setattr(slice_actor, "slice_words", lambda *_: SLEEPS)
    actor = SliceActor(ORDER, 7)
    deadline_s = time.monotonic() + LIMIT_S
    assert actor.look() == ("n1", None)
    assert actor._guard.stdin is not None
    actor._guard.stdin.close()
    while actor.look()[1] is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert not list((tmp_path / f"swell-ray-{os.getuid()}" / "p1").iterdir())
