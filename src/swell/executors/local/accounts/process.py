"""The one process of root, `swell-runas`: `python -I -m swell.executors.local.accounts.process GROUP UID`.

It takes connections of the platform's account, whose number is UID, and forks a keeper for each, which does
what is asked for as a member of GROUP. It reads nothing itself, and no part of it depends on a keeper.
"""

from __future__ import annotations

import fcntl
import grp
import logging
import os
import pwd
import signal
import socket
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from swell.executors.limited_log import log_to_stderr
from swell.executors.local.accounts.keeper import Keeper, say
from swell.executors.local.accounts.messages import FOLDER, MAX_CONNECTIONS, HelperAnswer, socket_path
from swell.wire.peers import peer_of

#: As the kernel shows the process: `pgrep -x swell-runas`.
NAME = "swell-runas"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH

log = logging.getLogger("swell.accounts")


class UnsafeHelper(RuntimeError):
    """Root runs no helper like this; the text says why, and the remedy."""


def check_platform_account(uid: int) -> None:
    """Raises UnsafeHelper: a platform may not have this account."""
    entry = pwd.getpwuid(uid)
    if uid == 0:
        raise UnsafeHelper("root has no platform: give the state folder to an account of the platform's own")
    others = {one.pw_name for one in pwd.getpwall() if one.pw_gid == entry.pw_gid}
    others |= set(grp.getgrgid(entry.pw_gid).gr_mem)
    if others := others - {entry.pw_name}:  # they could look into folders that are given to users
        raise UnsafeHelper(
            f"the first group of {entry.pw_name} is also that of {min(others)}; give the platform an account "
            "with a group of its own (`useradd -r -m -U swell`)"
        )


def check_own_code(paths: Iterable[str] = (sys.executable, __file__, *sys.path)) -> None:
    """Root runs no code that another user can change. Raises UnsafeHelper."""
    for path in filter(os.path.exists, paths):
        for part in (Path(os.path.realpath(path)), *Path(os.path.realpath(path)).parents):
            found = part.stat()
            if found.st_uid != 0 or (found.st_mode & _OTHERS_WRITE and not found.st_mode & stat.S_ISVTX):
                raise UnsafeHelper(
                    f"{part} can be changed by others than root, and root would run code below it; install "
                    "Swell for the machine, as root (`sudo python3 -m venv /opt/swell`)"
                )


def listen(platform_uid: int) -> socket.socket:
    """A socket that only the platform's account can open, in a folder that only root can change.

    Raises UnsafeHelper: the folder is not root's, or another helper listens.
    """
    with suppress(FileExistsError):
        FOLDER.mkdir(mode=0o755)
    handle = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    found = os.fstat(handle)
    if found.st_uid != 0 or found.st_mode & _OTHERS_WRITE:
        raise UnsafeHelper(f"{FOLDER} can be changed by others than root: remove it, and start again")
    path = socket_path(platform_uid)
    # The lock is of this process, and not of its keepers. It stays open as long as this process lives.
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise UnsafeHelper(f"another {NAME} listens at {path} already: end that first") from None
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.umask(0o177)
    listener.bind(str(path))
    os.chown(path, platform_uid, 0)
    os.umask(0o077)
    listener.listen(MAX_CONNECTIONS)
    return listener


def serve(listener: socket.socket, group: str, platform_uid: int) -> None:
    """Fork a keeper for each connection, until this process is killed. Keepers go on then."""
    keepers, own = set[int](), os.getpid()
    while True:
        with suppress(OSError):  # who has connected is gone
            line, _ = listener.accept()
            while keepers and (ended := os.waitpid(-1, os.WNOHANG)[0]):
                keepers.discard(ended)
            with line:
                peer, uid = peer_of(line)
                why = ""
                if uid != platform_uid:
                    why = f"user {uid} asks the helper of user {platform_uid}, which is for that one alone"
                elif len(keepers) >= MAX_CONNECTIONS:
                    why = f"{MAX_CONNECTIONS} processes of users are kept at a time: try again later"
                if why:
                    log.warning("refused: %s", why)
                    say(line, HelperAnswer(why=why))
                elif pid := os.fork():
                    keepers.add(pid)
                else:
                    _become_keeper(Keeper(line, peer, group, platform_uid), listener, own)


def _become_keeper(keeper: Keeper, listener: socket.socket, helper: int) -> None:
    """Never returns."""
    try:
        listener.close()
        Path("/proc/self/comm").write_text("swell-keeper")
        if keeper.serve() and os.getppid() == helper:
            os.kill(helper, signal.SIGTERM)
    except BaseException:
        log.exception("a keeper has failed")
    finally:
        os._exit(0)


def main() -> None:
    """Become the helper."""
    log_to_stderr("%(asctime)s swell-runas: %(message)s")
    group, platform_uid = sys.argv[1], int(sys.argv[2])
    try:
        check_own_code()
        check_platform_account(platform_uid)
        listener = listen(platform_uid)
    except (UnsafeHelper, KeyError, OSError) as error:
        sys.exit(f"swell-runas: {error}")
    Path("/proc/self/comm").write_text(NAME)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    os.write(1, b"\n")  # whoever has started it hears that it listens
    serve(listener, group, platform_uid)


if __name__ == "__main__":
    main()
