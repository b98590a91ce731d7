"""The process of root that keeps one of a user: starts it, waits for its end, and ends what it has started.

It adopts every descendant, so none gets away by a session, a double fork or an environment of its own. What
it signals it knows by a handle and by its user, never by its number alone.
"""

from __future__ import annotations

import os
import pwd
import re
import resource
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec

from swell.executors.local.accounts import messages
from swell.executors.local.accounts.messages import (
    AccountRefused,
    HelperAnswer,
    Intake,
    Remove,
    ZygoteRequest,
    account_of,
)
from swell.executors.local.processes.listing import started_by, user_of
from swell.executors.local.processes.parent_death import adopt_orphans, die_with_parent, gain_nothing
from swell.wire.group_places import MACHINE, group_places

UMASK = 0o027
#: A user has no more than this part of the threads that the machine can have.
THREADS_SHARE = 4
REMOVED_WITHIN_S = 60.0
#: Where users' temporary files are: in a folder in which no user can move what another one has made.
ROOMS = "/tmp"  # noqa: S108
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
#: A program of ours, with the folders from which root imports.
PROGRAM = f"import sys; sys.path[:] = {sys.path!r}; from {{}} import {{}} as main; main(*sys.argv[1:])"

_decode = msgspec.json.Decoder(messages.AnyRequest).decode


def say(line: socket.socket, answer: HelperAnswer) -> None:
    """Send an answer; no effect if nobody is there to hear it."""
    with suppress(OSError):
        line.sendall(msgspec.json.encode(answer) + b"\n", socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)


class Keeper:
    """Serves one connection, in a process of its own."""

    def __init__(self, line: socket.socket, peer: int, group: str, platform_uid: int) -> None:
        """`peer`: pid of the platform's process at its other end."""
        self._line, self._peer, self._group, self._platform_uid = line, peer, group, platform_uid

    def serve(self) -> bool:
        """Do what is asked for, and keep what was started until it has ended. True: the helper is to end."""
        try:
            request, descriptors = self._receive()
            if isinstance(request, messages.End):
                return True
            account = account_of(request.user, self._group)
            if isinstance(request, messages.Give):
                self._give(descriptors[0], account, request.mode)
                say(self._line, HelperAnswer(status=0))
                return False
            room = ""  # for temporary files, of the user alone
            if isinstance(request, ZygoteRequest):
                room = tempfile.mkdtemp(prefix="swell-", dir=ROOMS)
                os.chown(room, account.pw_uid, account.pw_gid)
            try:
                process = self._start(request, descriptors, account, room)
            except BaseException:
                if room:
                    os.rmdir(room)
                raise
        except (AccountRefused, OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            say(self._line, HelperAnswer(why=str(error)))
            return False
        for descriptor in descriptors[:2]:  # the keeper holds the third, which is a lock
            os.close(descriptor)
        say(self._line, HelperAnswer(pid=process.pid))
        say(self._line, HelperAnswer(status=self._await_end(process, account)))
        with suppress(OSError, subprocess.SubprocessError):
            if room:  # its user may have put anything there, so a process of that user empties it
                handle = os.open(room, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
                self._start(Remove(user=account.pw_name), [handle], account, "").wait(REMOVED_WITHIN_S)
                os.rmdir(room)
        return False

    def _receive(self) -> tuple[messages.AnyRequest, list[int]]:
        """Raises AccountRefused, OSError, MsgspecError; this process ends then, and closes what has come."""
        give_up_s, line = time.monotonic() + messages.REQUEST_S, self._line
        line.settimeout(messages.REQUEST_S)
        part, descriptors, flags, _ = socket.recv_fds(line, 1 << 16, 4, socket.MSG_CMSG_CLOEXEC)
        text = part
        while part and not text.endswith(b"\n") and len(text) <= messages.MAX_REQUEST_BYTES:
            line.settimeout(max(0.001, give_up_s - time.monotonic()))
            part = line.recv(1 << 16)  # descriptors that come later the kernel closes
            text += part
        if not text.endswith(b"\n") or len(text) > messages.MAX_REQUEST_BYTES:
            raise AccountRefused(f"a request is a line of at most {messages.MAX_REQUEST_BYTES} bytes")
        request = _decode(text)
        if flags & socket.MSG_CTRUNC or len(descriptors) != request.num_descriptors:
            raise AccountRefused(f"a request of this kind has {request.num_descriptors} descriptors")
        return request, descriptors

    def _give(self, folder: int, account: pwd.struct_passwd, mode: int) -> None:
        found = os.fstat(folder)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (self._platform_uid, account.pw_uid):
            raise AccountRefused(
                f"only a folder of the platform's own account can be given to user {account.pw_name!r} "
                f"(number {account.pw_uid}), and this is none; all machines of a platform need the same "
                "numbers of users"
            )
        if mode not in (messages.WORK_MODE, messages.CODE_MODE):
            raise AccountRefused(f"a folder is given with one of two modes, and {mode:o} is none of them")
        if found.st_uid == account.pw_uid:
            return
        platform_gid = pwd.getpwuid(self._platform_uid).pw_gid
        # Within code all is the user's alone, or layers of a trial run could not cover it.
        inside = (account.pw_gid, 0o755) if mode == messages.CODE_MODE else (platform_gid, mode)
        for _, folders, files, above in os.fwalk(".", topdown=False, dir_fd=folder):
            for name in (*folders, *files):
                handle = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=above)
                self._give_entry(handle, account.pw_uid, *inside)
                os.close(handle)
        self._give_entry(folder, account.pw_uid, platform_gid, mode)  # last: until then no user passes it

    def _give_entry(self, handle: int, uid: int, gid: int, mode: int) -> None:
        """Give a folder, or a file of this one name, of the platform; others stay whose they are."""
        found, path = os.fstat(handle), f"/proc/self/fd/{handle}"
        is_folder = stat.S_ISDIR(found.st_mode)
        is_file = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if found.st_uid == self._platform_uid and (is_folder or is_file):
            rights = found.st_mode & stat.S_IRWXU
            os.chown(path, uid, gid)
            os.chmod(path, mode if is_folder else rights | (rights | rights >> 3) >> 3 & 0o055)

    # ------------------------------------------------------------ the process
    def _start(
        self,
        request: messages.HelperRequest,
        descriptors: Sequence[int],
        account: pwd.struct_passwd,
        room: str,
    ) -> subprocess.Popen[bytes]:
        """Raises OSError, SubprocessError, AccountRefused."""
        words, environ, passed = _program(request, descriptors), dict[str, str](), list[int]()
        ends, folder = [subprocess.DEVNULL] * 3, "/"
        match request:
            case ZygoteRequest():
                if banned := [name for name in request.environ if not re.fullmatch(messages.ENVIRON, name)]:
                    raise AccountRefused(f"a zygote is not given the variable {banned[0]}")
                environ, passed = request.environ, [descriptors[0]]
                ends[1:] = [descriptors[1]] * 2
            case Intake():
                ends = [descriptors[0], *descriptors]
            case Remove():
                folder = f"/proc/self/fd/{descriptors[0]}"
        self._set_limits()
        adopt_orphans()
        return subprocess.Popen(
            words,
            stdin=ends[0],
            stdout=ends[1],
            stderr=ends[2],
            pass_fds=passed,
            env=environ | _own_variables(account, words[0], room),
            cwd=folder,
            start_new_session=True,
            user=account.pw_uid,
            group=account.pw_gid,
            extra_groups=os.getgrouplist(account.pw_name, account.pw_gid),
            umask=UMASK,
            preexec_fn=partial(_seal, os.getpid(), account.pw_uid),
        )

    def _set_limits(self) -> None:
        """Have cores and control groups of who asks, and a limit of processes, which does not bind root."""
        most = int(Path("/proc/sys/kernel/threads-max").read_text()) // THREADS_SHARE
        own = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        most = most if own == resource.RLIM_INFINITY else min(own, most)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        os.sched_setaffinity(0, os.sched_getaffinity(self._peer))
        for place in group_places(MACHINE, self._peer).values():
            with suppress(OSError):  # limits that a platform cannot set it tells of
                MACHINE.add(place.folder, [os.getpid()])

    def _await_end(self, process: subprocess.Popen[bytes], account: pwd.struct_passwd) -> int:
        """Wait until it ends, or the connection does; end all that is left. Returns its exit status."""
        ended = os.pidfd_open(process.pid)
        select.select([self._line.fileno(), ended], [], [])
        os.close(ended)
        status = 0
        with suppress(ChildProcessError):  # none is left
            while True:
                _kill_all(account.pw_uid)
                pid, found = os.waitpid(-1, 0)  # what that one has started is adopted by now
                status = os.waitstatus_to_exitcode(found) if pid == process.pid else status
        return status


# ---------------------------------------------------------------- in the child
def _seal(keeper: int, uid: int) -> None:
    """The last that runs before the user's program: it can gain no rights, and ends with its keeper."""
    with suppress(PermissionError):
        os.setuid(0)
    if os.getresuid() != (uid, uid, uid):
        os._exit(1)
    gain_nothing()
    die_with_parent(keeper)


# ---------------------------------------------------------------- what is started
def _program(request: messages.HelperRequest, descriptors: Sequence[int]) -> list[str]:
    """The command line. The interpreter is its only path that another than root chooses."""
    if isinstance(request, ZygoteRequest):
        words = [request.python, "-P", "-m", "swell.executors.local.zygote.process"]
        return [*words, str(descriptors[0]), str(os.getpid()), *request.modules]
    program = [PROGRAM.format("swell.wire.untrusted_files", "empty_current_folder")]
    if isinstance(request, Intake):
        program = [PROGRAM.format("swell.api.intake_process", "main"), request.limits]
    return [sys.executable, "-I", "-S", "-c", *program]


def _own_variables(account: pwd.struct_passwd, program: str, room: str) -> dict[str, str]:
    return {
        "HOME": account.pw_dir,
        "USER": account.pw_name,
        "LOGNAME": account.pw_name,
        "SHELL": account.pw_shell or "/bin/sh",
        "PATH": f"{os.path.dirname(program)}:{SYSTEM_PATH}",
        "TMPDIR": room or ROOMS,
        # Torch runs what it finds there; its own choice is a folder that any user can make first.
        "TORCHINDUCTOR_CACHE_DIR": f"{account.pw_dir}/.cache/torchinductor",
    }


# ---------------------------------------------------------------- ends
def _kill_all(uid: int) -> None:
    """Kill all that this process has started. All are stopped first, so that none starts others meanwhile."""
    stopped = set[int]()
    while found := set(started_by([os.getpid()])) - stopped:
        for pid in found:
            _signal(pid, uid, signal.SIGSTOP)
        stopped |= found
    for pid in stopped:
        _signal(pid, uid, signal.SIGKILL)


def _signal(pid: int, uid: int, number: int) -> None:
    """Signal a process of a user. No effect if the number is another user's process by now."""
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if user_of(pid) == uid:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)
