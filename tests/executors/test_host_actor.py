"""A host that Ray starts: its files are its user's own, where all may write, and its end has a cause."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from tests.executors.test_host_door import FakeController

from swell import __version__
from swell.executors.leases.lease_times import LeaseTimes
from swell.executors.local.agent.options import LOOPBACK
from swell.executors.node.private_folder import ForeignFolder
from swell.executors.ray.host_actor import HostActor, make_folder
from swell.executors.ray.ray_port import HostOrder
from swell.executors.remote.certificate import fingerprint_of, make_certificate
from swell.executors.remote.claims import Claims
from swell.executors.remote.host_door import HostDoor
from swell.executors.remote.join_listener import JoinListener
from swell.executors.remote.lease_book import LeaseBook
from swell.executors.remote.opening import torch_version
from swell.executors.remote.token_list import TokenList
from swell.wire.unslewed_clocks import granter_now_s

ORDER = HostOrder(platform="p1", name="n1", join="h:1", token="t", devices="cpu:1", is_borrowed=False)


def test_a_folder_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, ORDER)
    assert make_folder(tmp_path, ORDER) == folder and folder.relative_to(tmp_path).parts[1:] == ("p1", "n1")
    for level in (folder, folder.parent, folder.parent.parent):
        assert level.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_could_only_read_is_closed_to_them(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, ORDER)
    folder.parent.chmod(0o755)
    make_folder(tmp_path, ORDER)
    assert folder.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_folder_in_which_others_can_write_at_any_level_is_refused(tmp_path: Path, level: int) -> None:
    folder = make_folder(tmp_path, ORDER)
    opened = (folder, *folder.parents)[level]
    opened.chmod(0o777)
    with pytest.raises(ForeignFolder, match=f"{opened} must be a folder of user .* mode 777: remove it"):
        make_folder(tmp_path, ORDER)


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, ORDER)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignFolder):
        make_folder(tmp_path, ORDER)


def test_a_node_whose_torch_is_another_than_the_platforms_says_which_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real host, which a platform with another torch refuses. The bridge tells why as it tells each end."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    async def end_of_host() -> str:
        certificate, tokens = make_certificate(tmp_path), TokenList(tmp_path)
        book = LeaseBook(tmp_path, LeaseTimes(), granter_now_s)
        door = HostDoor(FakeController(), book, Claims(tmp_path), "head", torch="1.0.9")
        listener = JoinListener(certificate, tokens, __version__, door.joined, door.why_not)
        join = f"{LOOPBACK}:{await listener.listen(LOOPBACK)}"
        token = str(tokens.add("ray", fingerprint_of(certificate)))
        order = msgspec.structs.replace(ORDER, join=join, token=token)
        try:
            return await asyncio.to_thread(lambda: HostActor(order).wait())
        finally:
            await listener.close()

    assert asyncio.run(end_of_host()).partition(" refuses: ")[2] == (
        f"host 'n1' has torch {torch_version()}, this platform has torch 1.0.9; workers of one job need the "
        "same version: install torch 1.0.9 on the host"
    )
