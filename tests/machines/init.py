"""A program that is process 1 of a network or of a machine. It changes nothing outside of its namespaces.

    python -I -S init.py < ORDER.json

It sends `ready` on a socket, by which the kernel tells the receiver its process id, and then waits.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

#: Folders that hold what running programs share. A machine has an empty one in memory in place of each.
COVERED = {"/dev/shm": "1777", "/tmp": "1777", "/var/tmp": "1777", "/run": "755"}  # noqa: S108

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_BIND, _MS_REC = 2, 4, 8, 32, 4096, 16384
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE, _MOUNT_ATTR_RDONLY = -100, 0x8000, 1
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    order = json.load(sys.stdin)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans
    if "owner" in order:
        _say_ready(order)
        end = select.poll()  # select(2) takes no descriptor above 1023, and the owner may have more
        end.register(order["owner"], select.POLLIN)  # a pidfd: it is readable once that process has ended
        end.poll()
    else:
        _set_up(order)
        _say_ready(order)
        while True:
            signal.pause()


def _say_ready(order: dict[str, Any]) -> None:
    with socket.socket(fileno=order["ready"]) as line:
        line.send(b"ready")


def _set_up(order: dict[str, Any]) -> None:
    """A view of the machine below that can only be read, empty folders of its own, and the storage of all."""
    socket.sethostname(order["name"])
    seen = {path: os.open(path, os.O_PATH) for path in order["visible"]}
    storage = os.open(order["storage_outside"], os.O_PATH)
    _forbid_writing()
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for folder, mode in COVERED.items():
        if Path(folder).is_dir():
            _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode={mode}")
    for path, descriptor in seen.items():
        Path(path).mkdir(parents=True, exist_ok=True)
        _mount(f"/proc/self/fd/{descriptor}", path, "", _MS_BIND | _MS_REC)
        os.close(descriptor)
    _name_machines(order["hosts"])
    Path(order["home"]).mkdir()
    Path(order["state"]).mkdir()
    Path(order["storage"]).mkdir()
    _mount(f"/proc/self/fd/{storage}", order["storage"], "", _MS_BIND)
    _mount("", order["storage"], "", _MS_REMOUNT | _MS_BIND)
    os.close(storage)
    _mount("tmpfs", order["state"], "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=700")


def _name_machines(hosts: str) -> None:
    file = Path("/tmp/hosts")  # noqa: S108
    file.write_text(hosts)
    _mount(str(file), "/etc/hosts", "", _MS_BIND)
    file.unlink()


def _forbid_writing() -> None:
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, 0, 0)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    done = _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, ctypes.byref(attributes), size)
    _check(done, "/ cannot be made read-only")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [word.encode() for word in (source, target, kind)]
    done = _libc.mount(*words, ctypes.c_ulong(flags), options.encode())
    _check(done, f"{kind or source} cannot be mounted on {target}")


def _check(done: int, what: str) -> None:
    if done:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    main()
