"""No other process sees what a private one writes, wherever that goes."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from swell.wire.private_files import can_be_private, make_private
from swell.wire.untrusted_files import remove_folder

#: Ways to change the file `old`, or what is beside it, in the folder that is the first argument.
WAYS = {
    "open": "open(old, 'w').write('new')",
    "os.open": "os.write(os.open(old, os.O_WRONLY), b'new')",
    "os.replace": "os.replace(other, old)",
    "os.unlink": "os.unlink(old)",
    "os.link": "os.link(old, old + '2')",
    "os.mkdir": "os.makedirs(old + '2/3')",
    "shutil.rmtree": "import shutil; shutil.rmtree(here)",
    "torch.save": "import torch; torch.save({}, old)",
    "mmap": "import mmap; m = mmap.mmap(os.open(old, os.O_RDWR), 3); m[:3] = b'new'; m.flush()",
    "sqlite3": "import sqlite3; sqlite3.connect(here + '/db').execute('create table t(a)')",
    "subprocess": "import subprocess; subprocess.run(['sh', '-c', 'echo new > \"$0\"', old], check=True)",
    "dir_fd": "os.unlink('old', dir_fd=os.open(here, os.O_RDONLY))",
    "thread": "from concurrent.futures import *; ThreadPoolExecutor().submit(open, old, 'w').result()",
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def can_have_layers() -> bool:
    room = tempfile.mkdtemp(prefix=".layers-")
    try:
        return can_be_private(room)
    finally:
        remove_folder(room)


needs_layers = pytest.mark.skipif(not can_have_layers(), reason="the kernel refuses overlays of this user")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "old").write_text("old")
    (folder / "other").write_text("other")
    return folder


def seen(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that there is, with what it holds."""
    return {
        str(path): (found.st_mode, found.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in (folder, *folder.rglob("*"))
        if path.exists() or path.is_symlink()
        for found in [path.lstat()]
    }


def run_forked(act: Callable[[], object]) -> int:
    """The exit status of a child that does this."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            act()
            status = 0
        except BaseException:  # noqa: BLE001 - of a child that must not go on with the tests
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def do(way: str, outside: Path) -> None:
    names = {"os": os, "here": str(outside), "old": str(outside / "old"), "other": str(outside / "other")}
    exec(way, names)  # noqa: S102 - one of those above


@needs_layers
@every_way
def test_what_is_written_in_layers_is_seen_by_no_other_process(way: str, outside: Path) -> None:
    before, room = seen(outside), tempfile.mkdtemp(prefix=".layers-")

    def act() -> None:
        make_private(room)
        do(way, outside)
        assert seen(outside) != before, "this process sees it"

    assert run_forked(act) == 0
    remove_folder(room)
    assert seen(outside) == before and not Path(room).exists()
