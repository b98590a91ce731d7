"""Users of this machine, and a helper of root for them. Without root, or `useradd`, the tests skip."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from swell.executors.local.accounts.client import is_there
from swell.executors.local.accounts.messages import FOLDER

#: In a file system of its own, with the interpreter at its path though a folder above it is closed.
_UNCLOSED = """
set -e
mount --make-rprivate /
for closed in "$@"; do
    [ "$closed" = -- ] && break
    real=$(mktemp -d); mount --bind "$closed" "$real"
    mount -t tmpfs -o mode=755 tmpfs {top}
    mkdir -p "$closed"; mount --bind "$real" "$closed"
done
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""


def _closed_above(path: Path) -> list[Path]:
    """Folders above a path that users cannot pass, the outermost first."""
    return [one for one in reversed(path.parents) if not one.stat().st_mode & stat.S_IXOTH]


def reachable(words: Sequence[str]) -> list[str]:
    """The same command, where users can run this interpreter although it is installed for root alone."""
    home = Path(sys.base_prefix)
    if not (closed := _closed_above(home)):
        return list(words)
    script = _UNCLOSED.format(top=closed[0])
    return ["unshare", "--mount", "sh", "-c", script, "sh", str(home), "--", *words]


@dataclass
class Lab:
    """A group, an account of a platform, and users: two in the group, others that jobs may not run as."""

    group: str
    platform: pwd.struct_passwd
    alice: pwd.struct_passwd
    bob: pwd.struct_passwd
    outsider: pwd.struct_passwd
    shellless: pwd.struct_passwd
    folder: Path  #: that all can pass
    helper: subprocess.Popen[bytes] = field(repr=False)

    @contextmanager
    def as_platform(self) -> Iterator[None]:
        """What is done inside is done by the platform's account."""
        with acting_as(self.platform):
            yield

    def start_helper(self, nproc: int | None = None) -> subprocess.Popen[bytes]:
        return start_helper(self.group, self.platform.pw_uid, nproc)


@contextmanager
def acting_as(user: pwd.struct_passwd) -> Iterator[None]:
    """The effective user and groups of this process are theirs inside."""
    before = os.geteuid(), os.getegid(), os.getgroups()
    _become(user.pw_uid, user.pw_gid, os.getgrouplist(user.pw_name, user.pw_gid))
    try:
        yield
    finally:
        _become(*before)


def _become(uid: int, gid: int, groups: list[int]) -> None:
    os.seteuid(0)
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)


def as_root() -> AbstractContextManager[None]:
    return acting_as(pwd.getpwuid(0))


def run_as(user: pwd.struct_passwd, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program as a user, outside of the platform: as in a shell of theirs."""
    with as_root():
        return subprocess.run(  # type: ignore[call-overload,no-any-return]
            words,
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=os.getgrouplist(user.pw_name, user.pw_gid),
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            **options,
        )


def start_helper(group: str, uid: int, nproc: int | None = None) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-I", "-m", "swell.executors.local.accounts.process", group, str(uid)]
    if nproc is not None:
        words = ["prlimit", f"--nproc={nproc}:{nproc}", *words]
    process = subprocess.Popen(reachable(words), stdout=subprocess.PIPE, env={}, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.read(1) == b"\n", "the helper did not begin"
    return process


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    lacking = [name for name in ("useradd", "userdel", "unshare", "prlimit") if shutil.which(name) is None]
    if os.geteuid() != 0 or lacking:
        pytest.skip(f"users of the machine are made by root with useradd; lacking: {lacking or 'root'}")
    # In the last of them another user has no part.
    folder = Path(tempfile.mkdtemp(prefix="swell-lab-", dir="/tmp"))
    folder.chmod(0o755)
    prefix = f"sw{os.getpid()}"
    group = f"{prefix}lab"
    with _one_at_a_time():
        _call("groupadd", group)
        _call("useradd", "-r", "-U", "-m", "-d", str(folder / "platform"), f"{prefix}p")
        for name, shell, groups in (
            ("alice", "/bin/bash", [group]),
            ("bob", "/bin/sh", [group]),
            ("out", "/bin/sh", []),
            ("nosh", "/usr/sbin/nologin", [group]),
        ):
            more = ["-G", ",".join(groups)] if groups else []
            _call("useradd", "-m", "-d", str(folder / name), "-s", shell, *more, f"{prefix}{name}")
    users = [pwd.getpwnam(f"{prefix}{name}") for name in ("p", "alice", "bob", "out", "nosh")]
    helper = start_helper(group, users[0].pw_uid)
    platform, alice, bob, outsider, shellless = users
    made = Lab(group, platform, alice, bob, outsider, shellless, folder, helper)
    with made.as_platform():
        assert is_there()
    yield made
    made.helper.kill()
    made.helper.wait()
    with _one_at_a_time():
        for user in users:
            subprocess.run(["userdel", "-f", user.pw_name], capture_output=True, check=False)
        subprocess.run(["groupdel", group], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)
    for path in FOLDER.glob(f"runas-{users[0].pw_uid}.*"):
        path.unlink()


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """The files of users have one lock, for which `useradd` does not wait."""
    with open("/run/swell-test-users.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@pytest.fixture
def shared_folder(lab: Lab) -> Iterator[Callable[[str], Path]]:
    """Makes folders of the platform's that all can pass."""
    top = Path(tempfile.mkdtemp(dir=lab.folder))
    top.chmod(0o755)

    def make(name: str) -> Path:
        path = top / name
        path.mkdir(mode=0o700)
        os.chown(path, lab.platform.pw_uid, lab.platform.pw_gid)
        return path

    yield make
    shutil.rmtree(top, ignore_errors=True)
