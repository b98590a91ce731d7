"""The platform's side of the helper process of root, and how root starts that.

Calls wait for the helper, which takes some milliseconds: they are for threads.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from swell.executors.local.accounts.messages import (
    WORK_MODE,
    End,
    Give,
    HelperAnswer,
    HelperRequest,
    Remove,
    socket_path,
)
from swell.executors.local.accounts.messages import AccountRefused as AccountRefused
from swell.executors.storage import WORK
from swell.model.errors import InvalidOption
from swell.wire.peers import peer_of
from swell.wire.untrusted_files import is_own_folder, opened_folder

#: A helper that does not answer within this time is stuck.
ANSWER_S = 20.0
NO_HELPER = "`sudo swell up --accounts GROUP`, or `sudo swell node --accounts GROUP`, starts it"
#: Of the account that began, and not of the one that goes on.
OF_ROOT = ("SUDO_", "XDG_")
HOW_TO_OWN = "make an account and a folder: `useradd -r -m -U swell`, `install -d -o swell -g swell -m 0711"


@dataclass(slots=True)
class KeptProcess:
    """A process that runs as another user. It ends, with all that it has started, when this is closed."""

    pid: int
    line: socket.socket = field(repr=False)  #: readable once it has ended
    answers: BinaryIO = field(repr=False)

    def kill(self) -> None:
        """Have its keeper kill all its processes. `wait` returns when they are gone."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)

    def wait(self) -> int:
        """Return its exit status, or minus its signal, once no process of it is left.

        That of one whose keeper was killed, or does not answer, is SIGKILL; so is that of one that is closed
        meanwhile.
        """
        try:
            return _answered(self.answers).status or 0
        except (OSError, ValueError):  # a refusal is one, and so is what a closed file raises
            return -signal.SIGKILL
        finally:
            self.close()

    def close(self) -> None:
        self.answers.close()
        self.line.close()


def is_there() -> bool:
    """Whether a helper answers for this account."""
    with suppress(OSError), _connected():
        return True
    return False


def end_helper(uid: int) -> None:
    """Have the helper for an account end, as that account or root, if there is one. Returns once it has."""
    with suppress(OSError), _connected(uid) as line:
        helper = os.pidfd_open(peer_of(line)[0])
        if os.geteuid() == 0:
            signal.pidfd_send_signal(helper, signal.SIGTERM)
        else:
            line.sendall(msgspec.json.encode(End()) + b"\n")
        select.select([helper], [], [], ANSWER_S)
        os.close(helper)


def start(request: HelperRequest, descriptors: Sequence[int]) -> KeptProcess:
    """Start a process. It has its own copies of the descriptors.

    Raises:
        AccountRefused: the helper does not do that; the text says why.
        OSError: there is no helper, or it does not answer.
    """
    line = _connected()
    answers = line.makefile("rb")
    try:
        socket.send_fds(line, [msgspec.json.encode(request) + b"\n"], list(descriptors))
        pid = _answered(answers).pid
        line.settimeout(None)
    except BaseException:
        answers.close()
        line.close()
        raise
    return KeptProcess(pid, line, answers)


def give(folder: Path, user: str, mode: int = WORK_MODE) -> None:
    """Make a folder of the platform, with all in it, the user's, and its group's. Raises as `start`."""
    with opened_folder(folder, os.O_RDONLY) as handle:
        start(Give(user=user, mode=mode), [handle]).close()


def make_work(folder: Path, user: str) -> Path:
    """Make the folder of a job in which the processes of a user write, or see that it is that user's.

    All users may pass the folders above it. Raises as `start`; OSError: there is no room.
    """
    for above in (folder.parent.parent, folder.parent, folder):
        if is_own_folder(above):
            above.chmod(0o711)
    work = folder / WORK
    work.mkdir(mode=0o700, exist_ok=True)
    give(work, user)
    return work


def empty(folder: Path, user: str) -> None:
    """Remove what is in a folder, with a user's rights. Raises as `start`; OSError: some of it is left."""
    with opened_folder(folder, os.O_PATH) as handle:  # this account need not be able to read it
        if number := start(Remove(user=user), [handle]).wait():
            number = max(number, errno.EPERM)
            raise OSError(number, os.strerror(number), str(folder))


def _connected(uid: int | None = None) -> socket.socket:
    """A connection to the helper for an account, None: this one; the helper is root's. Raises OSError."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path = socket_path(os.geteuid() if uid is None else uid)
    try:
        line.settimeout(ANSWER_S)
        line.connect(str(path))
        if peer_of(line)[1] != 0:
            raise PermissionError(f"the process that answers at {path} is not root's")
    except OSError as error:
        line.close()
        raise ConnectionError(
            f"no helper of root starts processes of users ({error}): {NO_HELPER}"
        ) from error
    return line


def _answered(answers: BinaryIO) -> HelperAnswer:
    """The next answer. Raises AccountRefused, OSError."""
    line = answers.readline(1 << 16)
    if not line.endswith(b"\n"):
        raise ConnectionError(
            "the process that keeps the processes of a user has ended; `sudo swell up` again"
        )
    answer = msgspec.json.decode(line, type=HelperAnswer)
    if answer.why:
        raise AccountRefused(answer.why)
    return answer


# ---------------------------------------------------------------- root becomes the platform's account
def become_owner(folder: Path, group: str) -> None:
    """Start the helper process for the account that has this folder, and go on as that account.

    A helper that runs is replaced: its group may be another one. What it has started goes on.

    Raises:
        InvalidOption: it is not root who asks, or root's is the folder, or the helper refuses.
    """
    if os.geteuid() != 0:
        raise InvalidOption(f"--accounts {group}: only root starts processes of users; use `sudo`")
    try:
        grp.getgrnam(group)
        owner = pwd.getpwuid(folder.stat().st_uid)
    except FileNotFoundError as error:
        raise InvalidOption(f"--accounts: there is no folder {folder}; {HOW_TO_OWN} {folder}`") from error
    except KeyError as error:
        raise InvalidOption(
            f"--accounts {group}: {error.args[0]}; `groupadd {group}` makes the group"
        ) from error
    if owner.pw_uid == 0:
        raise InvalidOption(f"--accounts: {folder} is of root, which has no platform; {HOW_TO_OWN} {folder}`")
    end_helper(owner.pw_uid)
    _start_helper(group, owner.pw_uid)
    os.initgroups(owner.pw_name, owner.pw_gid)
    os.setgid(owner.pw_gid)
    os.setuid(owner.pw_uid)
    for name in [name for name in os.environ if name.startswith(OF_ROOT)]:
        del os.environ[name]
    os.environ |= {"HOME": owner.pw_dir, "USER": owner.pw_name, "LOGNAME": owner.pw_name}


def _start_helper(group: str, uid: int) -> None:
    """Raises InvalidOption: it does not begin."""
    words = [sys.executable, "-I", "-m", "swell.executors.local.accounts.process", group, str(uid)]
    with open(f"/run/swell-runas-{uid}.log", "ab", opener=_of_root) as log:
        begin = log.tell()
        helper = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd="/",
            env={},
            start_new_session=True,
        )
        if helper.stdout is not None and helper.stdout.read(1):
            return
        text = Path(log.name).read_bytes()[begin:].decode("utf-8", "replace").strip()
    raise InvalidOption(f"--accounts {group}: {text or 'the helper process of root ended without a word'}")


def _of_root(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
