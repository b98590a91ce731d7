"""A real Slurm on this machine: munged, slurmctld, and a slurmd for each node, on loopback.

with SlurmCluster(Path(folder), num_nodes=2) as slurm:
    subprocess.run(["sinfo"], env=slurm.environ)
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Self

from tests.eventually import eventually

from swell.executors.local.processes.parent_death import die_with_parent

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scancel", "scontrol")
DAEMON_PATH = "/usr/sbin:/usr/local/sbin:/sbin"
CPUS = 2
#: Seconds from the SIGTERM of a preemption to SIGKILL, in the partition `scav`.
GRACE_S = 5
#: Why slurmctld drains a node whose slurmd tells of a job that a killed slurmctld had not written down yet.
DUPLICATE = "Duplicate jobid"

CONFIGURATION = """\
ClusterName=swelltest
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ctld_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=100000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
TopologyPlugin=topology/tree
ReturnToService=2
SlurmdTimeout=10
KillWait=5
MinJobAge=60
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
NodeName=n[1-{num_nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first_port}-{last_port}] \
CPUs={cpus} Sockets=1 CoresPerSocket={cpus} ThreadsPerCore=1 RealMemory=4000 Gres=gpu:2
PartitionName=prod Nodes=ALL Default=YES PriorityTier=10 PreemptMode=OFF
PartitionName=scav Nodes=ALL PriorityTier=1 PreemptMode=REQUEUE GraceTime={grace_s} MaxTime=60
PartitionName=closed Nodes=ALL PriorityTier=1 AllowAccounts=nobody State=DOWN
"""


def why_not() -> str:
    """Why it cannot be had here; empty: it can."""
    path = f"{os.environ.get('PATH', '')}:{DAEMON_PATH}"
    missing = [name for name in PROGRAMS if shutil.which(name, path=path) is None]
    if missing:
        return f"Slurm is not installed ({', '.join(missing)})"
    return "" if os.geteuid() == 0 else "only root may start slurmd and munged"


def free_ports(num: int) -> int:
    """The first of so many ports in a row of which none is in use."""
    first = 20000 + (os.getpid() * 37) % 8000
    while not all(_is_free(port) for port in range(first, first + num)):
        first += num
    return first


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class SlurmCluster:
    """All of it ends with the `with`, or with the thread that has begun it.

    Args:
        folder: new; all files of Slurm are there.

    Raises:
        AssertionError: a daemon does not start; the text has what it has printed.
    """

    def __init__(self, folder: Path, num_nodes: int = 2) -> None:
        self.folder, self.num_nodes = folder, num_nodes
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environ = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
        self.environ["TMPDIR"] = str(folder / "tmp")
        self.environ["PATH"] = f"{os.environ.get('PATH', '')}:{DAEMON_PATH}"
        try:
            self._configure()
            self.start_munge()
            self.start_controller()
            for number in range(1, num_nodes + 1):
                self.start_node(f"n{number}")
            eventually(lambda: self.states() == ["idle"] * num_nodes, what=self._logs)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _switches(self) -> Iterator[str]:
        """Two nodes hang on each, and all of these on another one."""
        lasts = range(2, self.num_nodes + 2, 2)
        for last in lasts:
            yield f"SwitchName=s{last // 2} Nodes=n[{last - 1}-{min(last, self.num_nodes)}]"
        yield f"SwitchName=top Switches=s[1-{len(lasts)}]"

    def _configure(self) -> None:
        self.folder.chmod(0o755)
        (self.folder / "state").mkdir()
        (self.folder / "tmp").mkdir()
        munge = self.folder / "munge"
        munge.mkdir(mode=0o755)
        (munge / "key").write_bytes(os.urandom(128))
        (munge / "key").chmod(0o400)
        for path in (munge, munge / "key"):
            shutil.chown(path, "munge", "munge")
        for number in range(2):
            (self.folder / f"gpu{number}").symlink_to("/dev/null")
        (self.folder / "topology.conf").write_text("\n".join(self._switches()))
        first = free_ports(self.num_nodes + 1)
        text = CONFIGURATION.format(
            host=socket.gethostname().partition(".")[0],
            folder=self.folder,
            ctld_port=first,
            first_port=first + 1,
            last_port=first + self.num_nodes,
            num_nodes=self.num_nodes,
            cpus=CPUS,
            grace_s=GRACE_S,
        ).replace(f"{self.folder}/munge.socket", f"{munge}/socket")
        (self.folder / "slurm.conf").write_text(text)
        gpus = f"Name=gpu File={self.folder}/gpu[0-1]"
        nodes = [f"NodeName=n{number} {gpus}\n" for number in range(1, self.num_nodes + 1)]
        (self.folder / "gres.conf").write_text("".join(nodes))

    # ------------------------------------------------------------ daemons
    def start_munge(self) -> None:
        at = self.folder / "munge"
        (at / "socket").unlink(missing_ok=True)
        files = {
            "key-file": "key",
            "socket": "socket",
            "pid-file": "pid",
            "log-file": "log",
            "seed-file": "seed",
        }
        words = [f"--{option}={at / name}" for option, name in files.items()]
        self._start("munged", "--foreground", "--force", *words, user="munge")
        eventually((at / "socket").exists, what=self._logs)

    def start_controller(self) -> None:
        self._start("slurmctld", "-D", "-f", self.environ["SLURM_CONF"])
        eventually(lambda: self.run("scontrol", "ping").returncode == 0, what=self._logs)

    def start_node(self, name: str) -> None:
        (self.folder / f"spool.{name}").mkdir(exist_ok=True)
        self._start("slurmd", "-D", "-N", name, "-f", self.environ["SLURM_CONF"], known_as=name)

    def kill(self, known_as: str) -> None:
        """Send SIGKILL to one of `munged`, `slurmctld`, `n1`, ..."""
        process = self._processes.pop(known_as)
        process.kill()
        process.wait()

    def stop(self, known_as: str) -> None:
        """Send SIGTERM: it saves its state, of which `kill` loses the last seconds."""
        process = self._processes.pop(known_as)
        process.terminate()
        process.wait()

    def _start(self, program: str, *words: str, known_as: str = "", user: str | None = None) -> None:
        name = known_as or program
        with (self.folder / f"{name}.out").open("ab") as out:
            self._processes[name] = subprocess.Popen(
                [program, *words],
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                preexec_fn=partial(die_with_parent, os.getpid()),
            )

    def _logs(self) -> str:
        files = [*self.folder.glob("*.out"), *self.folder.glob("*.log"), self.folder / "munge" / "log"]
        return "\n".join(f"{file.name}: {file.read_text()[-2000:]}" for file in files if file.exists())

    # ------------------------------------------------------------ commands
    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, env=self.environ, capture_output=True, text=True, check=False)

    def states(self) -> list[str]:
        """State of each node, in its long form."""
        return self.run("sinfo", "-h", "-N", "-p", "prod", "-o", "%T").stdout.split()

    def resume_nodes(self) -> None:
        """What an operator does after a SIGKILL of slurmctld: nodes that it has drained take jobs again."""
        told = self.run("sinfo", "-h", "-N", "-p", "prod", "-t", "drain", "-o", "%N|%E").stdout
        for name, _, reason in (line.partition("|") for line in told.splitlines()):
            if reason == DUPLICATE:
                self.run("scontrol", "update", f"NodeName={name}", "State=RESUME")

    def jobs(self, *words: str) -> list[str]:
        """Ids of the jobs that pend or run."""
        return self.run("squeue", "-h", "-o", "%A", *words).stdout.split()

    @contextmanager
    def in_environ(self) -> Iterator[None]:
        """What this process starts can reach this Slurm."""
        before = {name: os.environ.get(name) for name in ("SLURM_CONF", "PATH", "TMPDIR")}
        os.environ.update({name: self.environ[name] for name in before})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def close(self) -> None:
        """All daemons, and steps, which are no children of theirs."""
        for name in ("slurmctld", *(f"n{number + 1}" for number in range(self.num_nodes)), "munged"):
            if (process := self._processes.pop(name, None)) is not None:
                process.kill()
                process.wait()
        while left := list(self.left()):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def left(self) -> Iterator[int]:
        """Processes that have this cluster in their environment: steps, and what they have started."""
        mark = f"SLURM_CONF={self.folder / 'slurm.conf'}\0".encode()
        for place in Path("/proc").glob("[0-9]*"):
            try:
                is_ours = mark in (place / "environ").read_bytes()
            except OSError:
                continue  # it is gone, or has no memory any longer
            if is_ours and int(place.name) != os.getpid():
                yield int(place.name)
