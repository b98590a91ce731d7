"""The files of a host that Ray starts are its user's own, in a folder where all users may write."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.executors.ray.host_actor import ForeignFolder, make_folder
from swell.executors.ray.ray_port import HostOrder

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
