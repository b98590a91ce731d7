"""The host of a slice of Ray: its words and variables, and its end, which has a cause."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import pytest
from tests.executors.test_host_door import FakeController

from swell.executors.local.agent.options import LOOPBACK, AgentOptions
from swell.executors.node.options import NodeOptions, read_options
from swell.executors.ray import slice_actor
from swell.executors.ray.slice_actor import SliceActor, about_host
from swell.executors.remote import listening_door
from swell.executors.remote.join_tokens import JoinToken
from swell.executors.remote.joining import torch_version
from swell.executors.slices.order import SliceOrder, host_environ, host_words

ORDER = SliceOrder(host=NodeOptions(join="h:1", devices="cpu:1", name="n1-1"), token="t")
LIMIT_S = 60.0
#: No platform listens at the order's address, so a host with it tries again and again.
TOKEN = str(JoinToken("ray", bytes(32), bytes(32)))


def options_on(labels: dict[str, str]) -> NodeOptions:
    words = host_words(ORDER.with_host(**about_host(labels, ORDER.host)), "t")
    return read_options(words[words.index("-m") + 2 :])[1]


def test_what_a_node_says_of_itself_its_host_says() -> None:
    labels = {"rack": "r1", "kind": "h100", "ray.io/market-type": "spot", "ray.io/availability-zone": "z"}
    options = options_on(labels)
    assert (options.name, options.rack, options.kind, options.is_borrowed) == ("n1-1", "r1", "h100", True)
    options = options_on({"ray.io/availability-zone": "z"})
    assert (options.rack, options.kind, options.is_borrowed) == ("z", "", False)


def test_a_label_that_can_be_no_rack_is_left_out_and_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert options_on({"rack": "row 3"}).rack == ""
    assert "rack 'row 3' is left out" in capfd.readouterr().err


def test_a_host_sees_the_gpus_of_its_slice_and_nothing_that_is_rays() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "3,5", "OMP_NUM_THREADS": "1", "RAY_JOB_ID": "1", "HOME": "/h"}
    cuda = ORDER.with_host(devices="cuda:2")
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
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(slice_actor, "_own_node", lambda: ("n1", {}))
    (tmp_path / "tmp").mkdir()

    async def end_of_host() -> tuple[str, str | None]:
        monkeypatch.setattr(listening_door, "torch_version", lambda: "1.0.9")
        options = AgentOptions(state_dir=tmp_path, listen=f"{LOOPBACK}:0")
        door = listening_door.ListeningDoor(FakeController(), options, "head")
        join, token = await door.open(), door.token_file("ray").read_text().strip()
        actor = SliceActor(msgspec.structs.replace(ORDER.with_host(join=join), token=token), 7)
        try:
            async with asyncio.timeout(LIMIT_S):
                while (found := actor.look())[1] is None:
                    await asyncio.sleep(0.01)
            return found
        finally:
            await door.close()

    node, why = asyncio.run(end_of_host())
    assert node == "n1" and why is not None
    assert why.partition(" refuses: ")[2] == (
        f"host 'n1-7' has torch {torch_version()}, this platform has torch 1.0.9; workers of one job need "
        "the same version: install torch 1.0.9 on the host"
    )
    assert not list((tmp_path / "tmp").iterdir())


def test_a_host_ends_with_its_actor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the kernel had closed what connects its guard with an actor that was killed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(slice_actor, "_own_node", lambda: ("n1", {}))
    actor = SliceActor(msgspec.structs.replace(ORDER.with_host(join="127.0.0.1:1"), token=TOKEN), 7)
    deadline_s = time.monotonic() + LIMIT_S
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    while not (folder / "host.log").read_text():  # the host runs
        assert actor.look() == ("n1", None) and time.monotonic() < deadline_s
        time.sleep(0.01)
    assert actor._guard.stdin is not None
    actor._guard.stdin.close()
    while actor.look()[1] is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert not folder.exists()
