"""A platform over several machines, as its user has it: `swell up` on one, `swell node` on the others.

Where Ray brings the hosts, `ray_fleet.py` has what is different.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from tests.eventually import eventually
from tests.machines.links import Link
from tests.machines.namespaces import HOME, STATE, STORAGE, Machine, Network
from tests.machines.site import client_of, start, swell

from swell.api.client import Client
from swell.api.errors import ApiError, NoPlatform
from swell.executors.leases import LeaseTimes
from swell.executors.local.agent.address import read_address
from swell.executors.local.processes.strays import read_mark
from swell.model.view import ClusterView, JobView
from swell.store.folder import StateFolder

#: Short, so that a host is given up soon; long enough for a machine whose cores are busy.
TIMES = LeaseTimes(lease_s=6.0, margin_s=3.0)
DEVICES = "paced:2@320"
HOSTS_PORT, STORE_PORT = 7070, 8000
TOKEN_FILE = f"{HOME}/join-token"
#: From a fault until the platform has done something about it, on a machine whose cores are busy.
PATIENCE_S = 300.0
SETTINGS = (
    f"lease_s={TIMES.lease_s}",
    f"lease_margin_s={TIMES.margin_s}",
    "standstill_s=2",
    "stuck_s=20",
    "notice_s=10",
    "boundary_s=5",
    "yield_s=5",
    "checkpoint_interval_s=1",
    "min_hold_s=0.5",
)


class Head:
    """The daemon and its agent, on a machine without devices."""

    def __init__(self, machine: Machine, folder: Path, hosts: Sequence[str]) -> None:
        """
        Args:
            folder: where what it prints is kept.
            hosts: options of `swell up` that say how hosts come.
        """
        self.machine, self._hosts = machine, hosts
        self._log = folder / "head.log"

    @property
    def state(self) -> Path:
        return self.machine.outside(STATE)

    def up(self) -> None:
        words = [word for text in SETTINGS for word in ("--set", text)]
        with self._log.open("a") as log:
            up = ("up", "--foreground", *self._hosts, *words)
            self._daemon = start(self.machine, *up, stdout=log, stderr=log)

    @property
    def is_up(self) -> bool:
        return self._daemon.poll() is None

    def token(self) -> str:
        """By which hosts join."""
        path = self.state / "first.join-token"
        if not path.exists():
            swell(self.machine, "admin", "tokens", "add", "first", "--out", f"{STATE}/{path.name}")
        return path.read_text()

    def client(self) -> AbstractContextManager[Client]:
        """See `client_of`."""
        if not self.is_up:
            raise NoPlatform("no daemon runs")
        return client_of(self.machine)

    def ensure_up(self) -> None:
        if not self.is_up:
            self.up()
        eventually(self.cluster, "an answer of the platform", PATIENCE_S)

    def cluster(self) -> ClusterView | None:
        """None: it does not answer now."""
        try:
            with self.client() as client:
                return client.cluster()
        except (ApiError, OSError):
            return None

    def views(self) -> list[JobView]:
        with self.client() as client:
            return client.jobs()

    # ------------------------------------------------------------ its processes, by their numbers there
    @property
    def daemon(self) -> int:
        endpoint = StateFolder(self.state).read_endpoint()
        assert endpoint is not None
        return endpoint.pid

    @property
    def agent(self) -> int:
        address = eventually(lambda: read_address(self.state), "an agent", PATIENCE_S)
        return address.pid

    def send(self, number: signal.Signals, *pids: int) -> None:
        """Some may have ended."""
        self.machine.popen("kill", f"-{int(number)}", *map(str, pids), stderr=subprocess.DEVNULL).wait()

    def await_end_of_daemon(self) -> None:
        self._daemon.wait()


class Host:
    """`swell node` on a machine, under one name for good."""

    def __init__(self, machine: Machine, name: str, head: Head, folder: Path) -> None:
        self.machine, self.name, self._head = machine, name, head
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None

    def is_named(self, node: str) -> bool:
        """Whether a node of the platform is this host."""
        return node == self.name

    def start(self) -> None:
        """The machine runs."""
        path = self.machine.outside(TOKEN_FILE)
        path.touch(mode=0o600)
        path.write_text(self._head.token())
        with self._log.open("a") as log:
            head = f"{self._head.machine.address}:{HOSTS_PORT}"
            node = ("node", "--name", self.name, "--devices", DEVICES, "--state", STATE)
            join = ("--join", head, "--token-file", TOKEN_FILE)
            self._process = start(self.machine, *node, *join, stdout=log, stderr=log)

    @property
    def written(self) -> Path:
        """The folder of what it writes, as long as its machine runs."""
        return self.machine.outside(STATE)

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill_process(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_machine(self) -> None:
        """With all that is on it."""
        self.machine.kill()

    def crash(self) -> None:
        """All processes end at once; its files are there when it comes back."""
        self.machine.run("sh", "-c", "kill -9 -1 || true")

    def workers(self) -> list[int]:
        """Pids of live processes that are forks of the zygote, stopped ones too."""
        return [pid for pid in self.machine.pids() if _is_worker(pid)]

    def complaints(self) -> str:
        """Of workers that were given a device which another one held."""
        path = self.machine.outside("/tmp/held-twice")  # noqa: S108
        return path.read_text() if path.exists() else ""


def _is_worker(pid: int) -> bool:
    """A zygote has the same words, and may have been forked by a process that has them, too."""
    mark = read_mark(pid)
    return is_fork(pid) and mark is not None and mark.worker > 0


def is_fork(pid: int) -> bool:
    """Whether it lives, and has the words of a zygote as the process has that forked it."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
        state, parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
        above = Path(f"/proc/{parent}/cmdline").read_bytes()
    except OSError:
        return False
    return state != "Z" and words == above and b"swell.executors.local.zygote.process" in words


def described(pid: int) -> str:
    """A process as the reader of a failure wants it: its mark, its state and its age."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        up_s = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return f"{pid}: gone by now"
    age_s = up_s - int(told[19]) / os.sysconf("SC_CLK_TCK")
    return f"{pid}: state {told[0]}, {age_s:.2f} s old, {read_mark(pid)}"


class Fleet:
    """A head, hosts, and a machine with a store for scripts, which nothing befalls."""

    def __init__(self, head: Head, hosts: Sequence[Host], store: Machine, folder: Path) -> None:
        """`folder`: for traces."""
        self.head, self.hosts, self._store, self._folder = head, hosts, store, folder
        program = Path(__file__).with_name("store.py")
        store.popen(sys.executable, str(program), store.address, str(STORE_PORT))
        self.store = f"http://{store.address}:{STORE_PORT}"

    def start(self) -> None:
        self.head.up()
        self.head.ensure_up()
        for host in self.hosts:
            host.start()
        self.await_hosts(len(self.hosts))

    def joined(self) -> set[str]:
        """Names of the hosts that the platform has now."""
        cluster = self.head.cluster()
        nodes = () if cluster is None else cluster.nodes
        return {host.name for host in self.hosts if any(host.is_named(node.name) for node in nodes)}

    def await_hosts(self, num: int) -> None:
        eventually(lambda: len(self.joined()) >= num, f"{num} hosts that have joined", 2 * PATIENCE_S)

    def keep_traces(self) -> None:
        """What the machines have written, for the reader of a failure."""
        self._keep("head", self.head.state)
        for host in self.hosts:
            with suppress(RuntimeError):  # it has been killed
                self._keep(host.name, host.written)
        with suppress(ApiError, OSError), self.head.client() as client:
            for view in client.jobs():
                lines = [f"{story.at_s:.2f} {story.code}: {story.text}" for story in client.stories(view.id)]
                (self._folder / "traces" / f"{view.id}.story").write_text("\n".join([str(view), *lines, ""]))

    def _keep(self, name: str, source: Path) -> None:
        for path in (*source.rglob("*.log*"), *source.rglob("*.json")):
            kept = self._folder / "traces" / name / path.relative_to(source)
            kept.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # it runs on
                shutil.copy(path, kept)

    def replay_differs(self) -> object:
        """The first difference that the journal has to what was done; None: it leads to the same."""
        return json.loads(swell(self.head.machine, "admin", "replay", "--json"))["first_difference"]


@contextmanager
def joined_fleet(folder: Path, num_hosts: int) -> Iterator[Fleet]:
    """Its hosts are `n1`, `n2`, ..."""
    delay_ms, loss_share = (float(os.environ.get(f"CHAOS_{name}", "0")) for name in ("DELAY_MS", "LOSS"))
    with Network(num_hosts + 2, Link(os.environ.get("CHAOS_LINK"), delay_ms, loss_share)) as network:
        own, *others, store = network
        listen = ("--listen", f"{own.address}:{HOSTS_PORT}", "--devices", "none", "--storage", STORAGE)
        head = Head(own, folder, listen)
        hosts = [Host(machine, f"n{number}", head, folder) for number, machine in enumerate(others, 1)]
        yield Fleet(head, hosts, store, folder)
