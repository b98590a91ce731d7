"""Several machines on one: namespaces of their own, joined by veth pairs, with one folder in common.

A machine has its own network, PID, mount, IPC, UTS and, where the kernel has them, time namespace. So it has
its own processes, host name, addresses and monotonic clock. It sees the files of the machine below, but
cannot write them; `/tmp`, `/dev/shm`, `/run` and the state folder are its own and empty. The storage is
common to all machines of a network, as on a file server. The calendar clock is common, too: Linux has no
namespace for it.

All of it is below one network namespace and one PID namespace, whose process 1 ends when the process that
asked for it ends, in whatever way. Then the kernel kills every process in it, and addresses and mounts go
with the last one. Nothing is sent to an address outside.

Needs `unshare` (util-linux 2.36), `ip` (iproute2) and Linux 5.12; as an ordinary user also user namespaces.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Self

from tests.machines.first_process import PYTHON, WITHIN_S, FirstProcess, NamespacesMissing, entry
from tests.machines.links import DIRECT, Link

import swell

__all__ = ["HOME", "INTERFACE", "STATE", "STORAGE", "Machine", "NamespacesMissing", "Network", "why_not"]

#: On every machine, in memory. The second one is `SWELL_STATE` of its commands.
HOME, STATE = "/tmp/home", "/tmp/state"  # noqa: S108
#: On every machine the same folder.
STORAGE = "/tmp/storage"  # noqa: S108
#: Name of the interface of each machine on the network.
INTERFACE = "eth0"
MOST_MACHINES = 200
#: What has not stopped after so long is let go on for a moment.
AGAIN_S = 1.0

#: What has to be seen on each machine: the package `swell`, and these tests.
_ROOTS = (Path(swell.__file__).parents[1], Path(__file__).parents[2])
_CAP_SYS_ADMIN = 21
_BRIDGE = "10.9.0.1"
_RELAY = Path(__file__).with_name("relay.py")
#: With this the names begin of the ends of pairs outside of the machines.
_ENDS = "veth"
#: Two machines have not been up for the same time, so that their monotonic clocks cannot be compared.
_UP_LONGER_S = 1000
#: Variables that name places of the machine below.
_FOREIGN = ("SWELL_", "XDG_", "PYTEST_", "TMP", "TEMP", "HOME", "PWD", "OLDPWD")


class Network:
    """`with Network(3) as network:` starts three machines that reach each other, and leaves nothing behind.

    Args:
        num_machines: that are started with it; `add` starts others.
        link: of each machine, from each of its starts on.

    Raises:
        NamespacesMissing: this machine does not offer what is needed.
    """

    def __init__(self, num_machines: int, link: Link = DIRECT) -> None:
        self.link = link
        has_users = not _may_unshare()
        self.users = ("user",) if has_users else ()
        self.storage = tempfile.mkdtemp(prefix="swell-storage-")
        self.machines: list[Machine] = []
        words = [_program("unshare"), "--net", "--pid", "--fork", "--kill-child"]
        owner = os.pidfd_open(os.getpid())
        try:
            mapped = ["--user", "--map-root-user"] if has_users else []
            self._first = FirstProcess.start([*words, *mapped], {"owner": owner}, (owner,))
        finally:
            os.close(owner)
        try:
            self.configure(
                self.pid, "link add br0 type bridge", f"addr add {_BRIDGE}/24 dev br0", "link set br0 up"
            )
            if link.delay_ms:
                self._start_relay()
            for _ in range(num_machines):
                self.add()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._first.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Machine]:
        return iter(self.machines)

    def __getitem__(self, index: int) -> Machine:
        return self.machines[index]

    def add(self) -> Machine:
        """Another machine, started."""
        machine = Machine(self, len(self.machines))
        self.machines.append(machine)
        machine.start()
        return machine

    def _start_relay(self) -> None:
        """It takes the place of the bridge, and ends with the network."""
        command = (*PYTHON, str(_RELAY), str(self.link.delay_ms / 2e3), _ENDS)
        inside = entry(self.pid, (*self.users, "net", "pid"), "/", *command)
        self._relay = subprocess.Popen(inside)

    def configure(self, pid: int, *lines: str) -> None:
        """Commands of ip(8) in the network namespace of a process, which keeps its number here."""
        words = entry(pid, (*self.users, "net"), "/", _program("ip"), "-batch", "-")
        text = "\n".join(lines)
        done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NamespacesMissing(f"`ip` fails: {done.stderr.strip()}")

    def close(self) -> None:
        """End every process of every machine, and wait until they have."""
        self._first.kill()
        for machine in self.machines:
            machine.release()
        self._first.release()
        shutil.rmtree(self.storage, ignore_errors=True)


class Machine:
    """After a kill it can be started again: with its name and its address, and without its files."""

    def __init__(self, network: Network, index: int) -> None:
        if index >= MOST_MACHINES:
            raise ValueError(f"a network has at most {MOST_MACHINES} machines")
        self.name, self.address = _name_of(index), _address_of(index)
        self._network = network
        self._index = index
        self._num_starts = 0
        self._first: FirstProcess | None = None
        self._commands: list[subprocess.Popen[str]] = []

    @property
    def pid(self) -> int:
        """Process id of the machine's process 1, in the PID namespace of this process."""
        return self._running.pid

    @property
    def _running(self) -> FirstProcess:
        if self._first is None:
            raise RuntimeError(f"{self.name} has been killed; `start` starts it again")
        return self._first

    @property
    def ahead_s(self) -> float:
        """Seconds by which the machine's monotonic clock is ahead of that of this process."""
        return float(_UP_LONGER_S * (self._index + 1)) if _time() else 0.0

    # ------------------------------------------------------------ commands
    def popen(
        self,
        *words: str | Path,
        cwd: str = HOME,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[str] | None = subprocess.DEVNULL,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
    ) -> subprocess.Popen[str]:
        """Run a command on this machine. The process that is returned forwards signals to it, ends with its
        status, and takes it along when it is killed.

        Args:
            env: in addition to the variables of this process that do not name places.
        """
        own = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
        command = subprocess.Popen(
            entry(self.pid, self._kinds, cwd, *words),
            env={**own, "HOME": HOME, "SWELL_STATE": STATE, **(env or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )
        self._commands.append(command)
        return command

    def run(self, *words: str | Path, cwd: str = HOME, env: Mapping[str, str] | None = None) -> str:
        """What a command prints. Raises CalledProcessError."""
        command = self.popen(*words, cwd=cwd, env=env, stdout=subprocess.PIPE)
        printed, _ = command.communicate()
        if command.returncode:
            raise subprocess.CalledProcessError(command.returncode, words, printed)
        return printed

    def outside(self, path: str) -> Path:
        """A file of this machine, for this process to read and write."""
        return Path(f"/proc/{self.pid}/root") / path.lstrip("/")

    # ------------------------------------------------------------ what befalls it
    def start(self) -> None:
        self._first = FirstProcess.start(
            [*entry(self._network.pid, (*self._network.users, "pid"), "/"), *self._unshare],
            {
                "name": self.name,
                "hosts": _hosts(),
                "home": HOME,
                "state": STATE,
                "storage": STORAGE,
                "storage_outside": self._network.storage,
                "visible": _visible(),
            },
        )
        self._num_starts += 1
        add = f"link add {self.link} type veth peer name {INTERFACE} netns {self.pid}"
        bridged = "" if self._network.link.delay_ms else " master br0"
        self._network.configure(self._network.pid, add, f"link set {self.link}{bridged} up")
        self._network.configure(
            self.pid,
            "link set lo up",
            f"link set {INTERFACE} address {_card_of(self._index)}",
            f"addr add {self.address}/24 dev {INTERFACE}",
            f"link set {INTERFACE} up",
            f"route add default via {_BRIDGE}",
        )
        for words in self._network.link.disciplines(self._index, INTERFACE):
            self.run("tc", *words, cwd="/")

    def kill(self) -> None:
        """SIGKILL for each of its processes at once; returns when the last one has ended."""
        self._running.kill()
        self.release()

    def release(self) -> None:
        """Wait for its commands, once it has been killed."""
        if self._first is not None:
            self._first.release()
            self._first = None
        for command in self._commands:
            command.wait()
        self._commands.clear()

    def partition(self) -> None:
        """Cut it off from all others."""
        self._network.configure(self._network.pid, f"link set {self.link} down")

    def heal(self) -> None:
        self._network.configure(self._network.pid, f"link set {self.link} up")

    def freeze(self) -> None:
        """SIGSTOP for each of its processes; returns when all have stopped. The kernel still answers."""
        self._signal_all(signal.SIGSTOP)
        deadline_s = time.monotonic() + WITHIN_S
        again_s = time.monotonic() + AGAIN_S
        while running := [pid for pid in self.pids() if not _is_stopped(pid)]:
            if time.monotonic() > deadline_s:
                raise TimeoutError(
                    f"processes {running} of {self.name} have not stopped within {WITHIN_S:g} s"
                )
            time.sleep(0.002)
            if time.monotonic() > again_s:  # one in vfork is deaf until its child, which has stopped, goes on
                self.thaw()
                time.sleep(0.01)
                self._signal_all(signal.SIGSTOP)
                again_s = time.monotonic() + AGAIN_S

    def thaw(self) -> None:
        self._signal_all(signal.SIGCONT)

    def pids(self) -> list[int]:
        """Process ids of all processes of the machine, in the PID namespace of this process."""
        namespace = Path(f"/proc/{self.pid}/ns/pid").stat().st_ino
        return [pid for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))) if _is_in(pid, namespace)]

    def _signal_all(self, number: signal.Signals) -> None:
        """One call of kill(2), which no fork escapes. It spares process 1, and fails if there is no other."""
        self._running.signal(number)
        text = f"kill -{int(number)} -1 || true"
        words = entry(self.pid, (*self._network.users, "pid"), "/", "sh", "-c", text)
        subprocess.run(words, check=True, stderr=subprocess.DEVNULL)

    # ------------------------------------------------------------ the namespaces
    @property
    def _kinds(self) -> tuple[str, ...]:
        return (*self._network.users, "net", "mnt", "pid", "ipc", "uts", *_time())

    @property
    def _unshare(self) -> list[str]:
        words = [_program("unshare"), "--net", "--mount", "--ipc", "--uts", "--pid", "--fork", "--kill-child"]
        later_s = int(self.ahead_s)
        return [*words, *(["--time", f"--monotonic={later_s}", f"--boottime={later_s}"] if _time() else [])]

    @property
    def link(self) -> str:
        """The end of its pair at the bridge. That of an earlier start may be there a moment longer."""
        return f"{_ENDS}{self._index}.{self._num_starts}"


def _name_of(index: int) -> str:
    return f"machine{index}"


def _address_of(index: int) -> str:
    return f"10.9.0.{10 + index}"


def _card_of(index: int) -> str:
    """Hardware address: others remember it when the machine comes back."""
    return f"02:00:0a:09:00:{10 + index:02x}"


def _hosts() -> str:
    """Return the content of /etc/hosts, with all machines that there may be."""
    named = [f"{_address_of(index)} {_name_of(index)}" for index in range(MOST_MACHINES)]
    return "\n".join(["127.0.0.1 localhost", *named, ""])


def _visible() -> list[str]:
    """Folders of programs that would be hidden, because they lie where a machine has a folder of its own."""
    covered = ("/dev/shm/", "/tmp/", "/var/tmp/", "/run/")  # noqa: S108
    named = [sys.prefix, sys.base_prefix, *map(str, _ROOTS), *sys.path]
    folders = {str(Path(path).resolve()) for path in named if path}
    hidden = sorted(path for path in folders if path.startswith(covered) and Path(path).is_dir())
    return [path for path in hidden if not any(path.startswith(f"{other}/") for other in hidden)]


def _time() -> tuple[str, ...]:
    return ("time",) if Path("/proc/self/ns/time").exists() else ()


def _may_unshare() -> bool:
    """Without a user namespace."""
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    return bool(effective >> _CAP_SYS_ADMIN & 1)


def _program(name: str) -> str:
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    path = shutil.which(name, path=places)
    if path is None:
        raise NamespacesMissing(f"the program `{name}` is not installed")
    return path


@cache
def why_not() -> str:
    """Why machines cannot be had here; empty: they can."""
    try:
        with Network(1):
            return ""
    except NamespacesMissing as error:
        return str(error)


def _is_in(pid: int, namespace: int) -> bool:
    """False if it is gone, or is another user's."""
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino == namespace
    except OSError:
        return False


def _is_stopped(pid: int) -> bool:
    """Whether a process is stopped with all its threads, or has ended.

    A thread that waits in the kernel (D) counts as stopped: it stops before it leaves the kernel, as does the
    parent in vfork of a child that has stopped.
    """
    try:
        states = [
            file.read_text().rpartition(")")[2].split()[0]
            for file in Path(f"/proc/{pid}/task").glob("*/stat")
        ]
    except OSError:
        return False
    return all(state in "TtDZX" for state in states)
