"""Folders of slices are their user's own, below one where all may write."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.executors.slices.folders import ForeignFolder, make_private

NAMES = ("swell-ray-0", "p1", "n1")


def make_folder(parent: Path) -> Path:
    folders = [parent.joinpath(*NAMES[: number + 1]) for number in range(len(NAMES))]
    make_private(*folders)
    return folders[-1]


def test_a_folder_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    assert make_folder(tmp_path) == folder and folder.relative_to(tmp_path).parts == NAMES
    for level in (folder, folder.parent, folder.parent.parent):
        assert level.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_could_only_read_is_closed_to_them(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.parent.chmod(0o755)
    make_folder(tmp_path)
    assert folder.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_folder_in_which_others_can_write_at_any_level_is_refused(tmp_path: Path, level: int) -> None:
    folder = make_folder(tmp_path)
    opened = (folder, *folder.parents)[level]
    opened.chmod(0o777)
    with pytest.raises(ForeignFolder, match=f"{opened} must be a folder of user .* mode 777: remove it"):
        make_folder(tmp_path)


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ForeignFolder):
        make_folder(tmp_path)
