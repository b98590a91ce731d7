"""A slice on its node: who hears SIGTERM, what ends with the task, and what the batch script does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest
from tests.eventually import PATIENCE_S, eventually

from swell.executors.local.processes.listing import is_alive, list_processes
from swell.executors.node.options import NodeOptions, read_options
from swell.executors.ray.slice_actor import about_host
from swell.executors.slices.order import SliceOrder, host_environ, host_name, host_words, slice_of
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.slice_task import switch_of
from swell.executors.slurm.slurm_client import batch_script

HOST_OPTIONS = NodeOptions(
    join="h:1", devices="cuda:2", is_borrowed=True, grace_s=30.0, sigterm_means=SlurmEngine.sigterm_means
)
ORDER = SliceOrder(host=HOST_OPTIONS, token="secret")
SLURM = {
    "SLURMD_NODENAME": "gpu-07.cluster",
    "SLURM_JOB_ID": "41",
    "HOME": "/h",
    "CUDA_VISIBLE_DEVICES": "3,5",
}

#: In place of a host: says what it hears, and ends at the second SIGTERM.
HOST = """
import os, signal, sys
heard = []
def hear(signum, frame):
    heard.append(signum)
    os.write(1, b"heard %d\\n" % len(heard))  # a signal may come while the main thread prints
    if len(heard) == 2:
        sys.exit(7)
signal.signal(signal.SIGTERM, hear)
print("host", os.getpid(), open(sys.argv[-1]).read().strip(), flush=True)
while True:
    signal.pause()
"""
HOST_WORDS = (sys.executable, "-c", HOST)
#: The task of a slice whose host is another program.
TASK = """
import sys
from swell.executors.node.options import NodeOptions
from swell.executors.slices import guard
from swell.executors.slices.order import SliceOrder
from swell.executors.slurm.slice_task import run_task
guard.host_words = lambda order, token_file: [*sys.argv[2:], "--token-file", token_file]
sys.exit(run_task(SliceOrder(host=NodeOptions(), token="secret", folder=sys.argv[1])))
"""


class Task:
    def __init__(self, parent: Path, *words: str) -> None:
        self.folder = parent / "slice"
        self.folder.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-c", TASK, str(self.folder), *(words or HOST_WORDS)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.host, self.token = 0, ""
        if not words:
            _, pid, self.token = self.line().split()
            self.host = int(pid)

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


@pytest.fixture
def task(tmp_path: Path) -> Iterator[Task]:
    made = Task(tmp_path)
    yield made
    with suppress(ProcessLookupError):
        os.kill(made.host, signal.SIGKILL)
    made.process.kill()
    made.process.wait()


def test_the_host_is_no_descendant_of_the_task_so_that_a_signal_to_all_of_them_spares_it(task: Task) -> None:
    below = [child.pid for child in psutil.Process(task.process.pid).children(recursive=True)]
    assert task.host not in below
    for pid in below:
        os.kill(pid, signal.SIGTERM)
    os.kill(task.process.pid, signal.SIGTERM)
    assert task.line() == "heard 1\n"
    os.kill(task.process.pid, signal.SIGTERM)
    assert task.line() == "heard 2\n"
    assert task.process.wait(PATIENCE_S) == 7, "it ends as its host does"


def test_a_task_that_is_killed_takes_its_host_with_it(task: Task) -> None:
    task.process.kill()
    eventually(lambda: not is_alive(task.host))
    eventually(lambda: not task.folder.exists())


def test_a_slice_that_is_killed_whole_leaves_its_join_token_on_no_disk(task: Task) -> None:
    """Slurm kills all processes of a job."""
    guard = next(process.parent for process in list_processes() if process.pid == task.host)
    task.process.send_signal(signal.SIGSTOP)  # or it would remove the folder
    os.kill(guard, signal.SIGKILL)
    task.process.kill()
    eventually(lambda: not is_alive(task.host) and not is_alive(guard))
    task.process.wait()
    assert not any("secret" in path.read_text() for path in task.folder.rglob("*") if path.is_file())


def test_a_guard_that_is_killed_takes_its_host_with_it_and_the_task_ends(task: Task) -> None:
    guard = next(process.parent for process in list_processes() if process.pid == task.host)
    os.kill(guard, signal.SIGKILL)
    assert task.process.wait(PATIENCE_S) == 128 + signal.SIGKILL
    eventually(lambda: not is_alive(task.host))
    assert not task.folder.exists()


# ---------------------------------------------------------------- words
def test_a_host_has_the_name_of_its_node_and_job_and_hears_what_sigterm_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    words = host_words(ORDER.on("gpu-07.cluster", 41), "t")
    options = read_options(words[words.index("-m") + 2 :])[1]
    assert options.name == "gpu-07-cluster-41" and options.is_borrowed and options.grace_s == 30.0
    assert options.sigterm_means == SlurmEngine.sigterm_means and options.devices == "cuda:2"


@pytest.mark.parametrize(
    ("address", "pattern", "rack"),
    [
        ("", "", ""),  # a Slurm without topology/tree sets neither
        ("n7", "node", ""),
        ("s0.s2.n7", "switch.switch.node", "s2"),
        ("s2.n7.cluster", "switch.node", "s2"),  # a node's name may have periods
        ("s[1-2].n7", "switch.node", ""),  # no name of a rack
    ],
)
def test_a_host_stands_in_the_rack_of_its_switch(address: str, pattern: str, rack: str) -> None:
    topology = {"SLURM_TOPOLOGY_ADDR": address, "SLURM_TOPOLOGY_ADDR_PATTERN": pattern}
    words = host_words(ORDER.with_host(name="n-1", rack=switch_of(topology)), "t")
    assert read_options(words[words.index("-m") + 2 :])[1].rack == rack


def test_a_host_sees_the_gpus_that_slurm_has_chosen_and_nothing_else_of_the_job() -> None:
    environ = host_environ(
        ORDER, {**SLURM, "OMP_NUM_THREADS": "1", "SLURM_NTASKS": "1", "SLURM_CONF": "c", "SWELL_STATE": "s"}
    )
    assert environ == {
        "HOME": "/h",
        "SLURM_CONF": "c",
        "CUDA_VISIBLE_DEVICES": "3,5",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


@pytest.mark.parametrize(
    ("node", "name"),
    [("n1", "n1-41"), ("a.b", "a-b-41"), ("x" * 50, "x" * 37 + "-41"), ("..", "node-41")],
)
def test_names_of_hosts_say_which_job_they_are_of(node: str, name: str) -> None:
    assert host_name(node, 41) == name and slice_of(name) == 41


# ---------------------------------------------------------------- the batch script
def test_a_batch_script_is_one_step_that_has_its_order_as_input(tmp_path: Path) -> None:
    """It ends as its step does."""
    srun, python = tmp_path / "srun", tmp_path / "python"
    srun.write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    python.write_text('#!/bin/sh\ncat > "$TMPDIR/order"\nexit 3\n')
    for program in (srun, python):
        program.chmod(0o755)
    script = batch_script(ORDER).replace(sys.executable, str(python))
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    done = subprocess.run(["bash"], input=script, text=True, env=environ, check=False)
    assert done.returncode == 3
    assert msgspec.json.decode((tmp_path / "order").read_bytes(), type=SliceOrder) == ORDER


# ---------------------------------------------------------------- slices of Ray
RAY_ORDER = SliceOrder(host=NodeOptions(join="h:1", devices="cpu:1", name="n1-1"), token="t")


def options_on(labels: dict[str, str]) -> NodeOptions:
    words = host_words(RAY_ORDER.with_host(**about_host(labels, RAY_ORDER.host)), "t")
    return read_options(words[words.index("-m") + 2 :])[1]


def test_what_a_node_says_of_itself_its_host_says() -> None:
    labels = {"rack": "r1", "kind": "h100", "ray.io/market-type": "spot", "ray.io/availability-zone": "z"}
    options = options_on(labels)
    assert (options.name, options.rack, options.kind, options.is_borrowed) == ("n1-1", "r1", "h100", True)
    options = options_on({"ray.io/availability-zone": "z"})
    assert (options.rack, options.kind, options.is_borrowed) == ("z", "", False)


def test_a_label_that_can_be_no_rack_is_left_out_and_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert options_on({"rack": "row 3"}).rack == ""
    assert "rack 'row 3' is left out" in capfd.readouterr().err


def test_a_host_sees_the_gpus_of_its_slice_and_nothing_that_is_rays() -> None:
    environ = {"CUDA_VISIBLE_DEVICES": "3,5", "OMP_NUM_THREADS": "1", "RAY_JOB_ID": "1", "HOME": "/h"}
    cuda = RAY_ORDER.with_host(devices="cuda:2")
    assert host_environ(cuda, environ) == {
        "CUDA_VISIBLE_DEVICES": "3,5",
        "HOME": "/h",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert "CUDA_VISIBLE_DEVICES" not in host_environ(RAY_ORDER, environ), "they only pretend to be GPUs"
