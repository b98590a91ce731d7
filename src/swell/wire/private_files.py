"""A process whose writes no other process sees, wherever in the file system they go: Linux's overlays.

What it reads are the real files. What it writes, renames or removes goes into layers of its own, and so
does what the programs write that it starts. The kernel may refuse it: the caller then does without whatever
could write.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from swell.wire import environ

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MOUNT_SETATTR, _AT_FDCWD, _MOUNT_ATTR_RDONLY = 442, -100, 1
#: Devices, and what the kernel tells.
_OF_THE_KERNEL = ("/proc", "/sys", "/dev")
#: Processes on trial share what stands in here, and nothing in its folders.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - no file is made there
#: Folders within which no user has any of their own.
_OF_THE_SYSTEM = ("/boot", "/etc", "/usr")
#: Variables that name folders of caches.
_CACHES = ("XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME")

#: Folders of others that are looked into for some of this user, so many as long as they are found.
MAX_SEEN = 5_000

_libc = ctypes.CDLL(None, use_errno=True)
#: Folders that are the real ones, of layers first, then caches; empty: all that this process writes is seen.
_real: list[str] = []


class _MountOptions(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def are_private() -> bool:
    """Whether nothing that this process writes is seen elsewhere, but for caches."""
    return bool(_real) or environ.OUTPUT in os.environ  # a container of a trial run can write nothing else


def make_private(room: str) -> None:
    """Keep what this process writes from now on in layers below a folder, which no other process sees.

    It is called once, in a process that has one thread.

    A folder in which another file system is mounted becomes read-only itself. Folders of caches stay as they
    are: what is fetched into them need not be fetched again.

    Args:
        room: an existing folder.

    Raises:
        OSError: the kernel does not let this user, or a file system cannot lie below another.
    """
    here = os.getcwd()
    needed = [here, os.path.expanduser("~")]
    mounts = _mounts()
    folders = list(_coverable(mounts, needed))
    code = os.path.realpath(os.environ.get(environ.CODE, "/"))  # no user may list the folders above it
    if not any(f"{code}/".startswith(f"{folder}/") for folder in folders) and os.access(code, os.W_OK):
        folders.append(code)
    _enter_namespace(needed, folders)
    real = {path: os.open(path, os.O_PATH) for path in (os.path.realpath(room), *_caches())}
    os.chdir(room)  # options of a mount have a length
    covered = {path for number, path in enumerate(folders) if _cover(path, str(number), needed)}
    for path in mounts:
        if path not in covered and not any(f"{path}/".startswith(f"{own}/") for own in _OF_THE_KERNEL):
            _set_attributes(path, set=_MOUNT_ATTR_RDONLY)
    for path, handle in real.items():
        _mount(f"/proc/self/fd/{handle}", path, "", _MS_BIND)
        _set_attributes(path, clear=_MOUNT_ATTR_RDONLY)
        os.close(handle)
    os.chdir(here)
    _real[:] = real


def can_be_private(room: str) -> bool:
    """Whether `make_private` will do, tried by a child: what is half done cannot be taken back."""
    child = os.fork()
    if child == 0:
        with suppress(OSError):
            make_private(room)
            os._exit(0)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _enter_namespace(needed: Sequence[str], covered: Sequence[str]) -> None:
    """Enter a namespace of mounts, and one of users where only that gives the right to mount."""
    if _libc.unshare(_NEWNS):
        user, group = os.getuid(), os.getgid()
        for path in needed:
            _check_owned(path, user, group, covered)
        _check(_libc.unshare(_NEWNS | _NEWUSER), "unshare")
        Path("/proc/self/setgroups").write_text("deny")
        for name, number in (("uid_map", user), ("gid_map", group)):
            Path("/proc/self", name).write_text(f"{number} {number} 1")
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)


def _check_owned(path: str, user: int, group: int, covered: Sequence[str]) -> None:
    """Raises OSError where the kernel could not copy a folder, whose owner has no number in a namespace."""
    for folder in (Path(path), *Path(path).parents):
        if str(folder) in covered:
            return
        found = folder.stat()
        if (found.st_uid, found.st_gid) != (user, group):
            raise OSError(errno.EOVERFLOW, f"{folder} is of another user or group")


def _mounts() -> list[str]:
    """Return where file systems are mounted."""
    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    fields = (line.split(b" ")[4] for line in lines)
    plain = (re.sub(rb"\\(\d{3})", lambda found: bytes([int(found[1], 8)]), field) for field in fields)
    return [os.fsdecode(path) for path in dict.fromkeys(plain)]


def _caches() -> Iterator[str]:
    """Folders of this user that hold what can be fetched or made again."""
    named = [os.environ[name] for name in _CACHES if name in os.environ]
    for path in ("~/.cache", *named):
        where = os.path.realpath(os.path.expanduser(path))
        if os.path.isdir(where):
            yield where


def _coverable(mounts: Sequence[str], needed: Sequence[str]) -> Iterator[str]:
    """The largest folders that this user may write to and within which nothing else is mounted.

    A folder that is not theirs would have to be copied for what is written further down, which they may not.
    Left out are those in shared memory that a process has made for itself by `tempfile`: processes that are
    killed leave hundreds of them, and each layer takes milliseconds.
    """
    holders = {str(parent) for path in mounts for parent in Path(path).parents}
    known = {str(parent) for path in needed for parent in (Path(path), *Path(path).parents)}
    left, num_seen = deque(["/", _SHARED_MEMORY]), 0
    while left:
        path = left.popleft()
        if path not in holders and path != _SHARED_MEMORY and os.access(path, os.W_OK):
            yield path
        elif path in holders | known or (path not in _OF_THE_SYSTEM and num_seen < MAX_SEEN):
            with suppress(OSError), os.scandir(path) as entries:
                folders = [
                    entry.path
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False)
                    and not (path == _SHARED_MEMORY and _is_temporary(entry))
                ]
                left += [folder for folder in folders if folder not in _OF_THE_KERNEL]
                num_seen += len(folders)


def _is_temporary(entry: os.DirEntry[str]) -> bool:
    """Whether a folder is one of `tempfile`: closed to others, and its name ends at random."""
    return not entry.stat().st_mode & 0o077 and re.search(r"[a-z0-9_]{8}$", entry.name) is not None


def _cover(path: str, name: str, needed: Sequence[str]) -> bool:
    """Put layers upon a folder, which are made below the current one; False: its file system takes none."""
    try:
        handle = os.open(path, os.O_PATH)
    except FileNotFoundError:
        return False  # of another process, which has deleted it meanwhile
    for part in ("written", "work"):
        os.makedirs(f"{name}/{part}", exist_ok=True)
    os.chmod(f"{name}/written", os.stat(handle).st_mode & 0o7777)
    layers = f"lowerdir=/proc/self/fd/{handle},upperdir={name}/written,workdir={name}/work,userxattr"
    try:
        _mount("overlay", path, "overlay", 0, layers)
    except OSError:
        if any(f"{each}/".startswith(f"{path}/") for each in needed):
            raise
        return False
    finally:
        os.close(handle)
    return True


def _set_attributes(path: str, **changes: int) -> None:
    attributes = _MountOptions(**changes)
    arguments = (_AT_FDCWD, os.fsencode(path), 0, ctypes.byref(attributes), ctypes.sizeof(attributes))
    _check(_libc.syscall(_MOUNT_SETATTR, *arguments), f"mount_setattr {path}")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [os.fsencode(word) for word in (source, target, kind)]
    _check(_libc.mount(*words, ctypes.c_ulong(flags), os.fsencode(options)), f"mount {target}")


def _check(status: int, what: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
