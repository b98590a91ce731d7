"""Machines share a wire and nothing else; they can be cut off, killed and frozen, and leave nothing."""

from __future__ import annotations

import itertools
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import pytest
from tests.machines.forked import Forked
from tests.machines.namespaces import HOME, INTERFACE, STATE, Machine, NamespacesMissing, Network, why_not

from swell.wire import environ

ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, "-I", "-S", "-c")
#: An answer that takes longer does not come; one that is not to come is waited for so long.
PATIENCE_S, SILENCE_S = 30.0, 0.3
#: Descriptors from this one on are too high for select(2).
FD_SETSIZE = 1024
#: torch asks for the name of each peer. No machine has a name server, and a lookup would take 10 s.
OF_TORCH = {"OMP_NUM_THREADS": "1", "RES_OPTIONS": "timeout:1 attempts:1"}

#: Answers each line with the name of its machine, the address of the client, and the line.
SERVE = """
import socket
server = socket.create_server(("0.0.0.0", 0))
print(server.getsockname()[1], flush=True)
while True:
    line, (peer, _) = server.accept()
    for text in line.makefile():
        line.sendall(f"{socket.gethostname()} hears {peer} {text}".encode())
"""
#: Sends each line that it reads, and prints the answer.
TALK = """
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30) as line:
    for text in sys.stdin:
        line.sendall(text.encode())
        print(line.makefile().readline(), end="", flush=True)
"""


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def serve(machine: Machine) -> tuple[str, str]:
    """Name and port of a server, which talks to one client after the other."""
    return machine.name, line_of(machine.popen(*PYTHON, SERVE, stdout=subprocess.PIPE))


class Talk:
    """A connection between commands on two machines."""

    def __init__(self, here: Machine, server: tuple[str, str]) -> None:
        self.process = here.popen(*PYTHON, TALK, *server, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def say(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        assert self.hears_within(PATIENCE_S)
        return line_of(self.process)

    def hears_within(self, limit_s: float) -> bool:
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], limit_s)[0])


def assert_ended(descriptors: Iterable[int]) -> None:
    """`descriptors`: pidfds."""
    for descriptor in descriptors:
        assert select.select([descriptor], [], [], PATIENCE_S)[0]
        os.close(descriptor)


def skip_without_machines() -> None:
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")


def with_tests() -> dict[str, str]:
    """An environment in which `tests` can be imported."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "src", ROOT / "papers/src")))}


# ------------------------------------------------------------ what they share
@pytest.mark.slow
def test_machines_reach_each_other(network: Network) -> None:
    for there in network:
        server = serve(there)
        for here in network:
            with Talk(here, server) as talk:
                talk.say("hello")
                assert talk.hear() == f"{there.name} hears {here.address} hello"


def test_their_wire_ends_within_the_test(network: Network) -> None:
    lines = Path(f"/proc/{network.pid}/net/dev").read_text().splitlines()[2:]
    devices = {line.partition(":")[0].strip() for line in lines}
    assert devices == {"lo", "br0", *(f"veth{index}.1" for index in range(3))}


def test_a_file_is_on_one_machine_only(network: Network) -> None:
    one, *others = network
    for folder in ("/tmp", "/dev/shm", "/run", HOME, STATE):  # noqa: S108
        one.run("sh", "-c", f"echo mine > {folder}/swell-test")
        assert one.outside(f"{folder}/swell-test").read_text() == "mine\n"
        assert not Path(f"{folder}/swell-test").exists()
        for other in others:
            assert not other.outside(f"{folder}/swell-test").exists()


def test_the_files_of_the_machine_below_are_only_read(network: Network) -> None:
    target = ROOT / "swell-test"
    command = network[0].popen("touch", target, stderr=subprocess.PIPE)
    assert "Read-only file system" in command.communicate()[1]
    assert not target.exists()


def test_a_machine_sees_its_own_processes_only(network: Network) -> None:
    serve(network[0])
    for machine in network:
        pids = machine.pids()
        listed = [name for name in machine.run("ls", "/proc").split() if name.isdecimal()]
        assert len(listed) == len(pids) + 1, "those that are known, and ls"
    assert not set(network[0].pids()) & set(network[1].pids())


def test_monotonic_clocks_cannot_be_compared(network: Network) -> None:
    if not Path("/proc/self/ns/time").exists():
        pytest.skip("this kernel has no time namespaces")
    up_s = [float(machine.run("cat", "/proc/uptime").split()[0]) for machine in network]
    assert all(later_s - sooner_s > 900 for sooner_s, later_s in itertools.pairwise(up_s))


def skip_without_gloo() -> None:
    distributed = pytest.importorskip("torch").distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")


def test_two_processes_of_a_gloo_group_sum_over_the_wire() -> None:
    skip_without_machines()
    skip_without_gloo()
    from tests.machines.reduces import total

    environment = {"GLOO_SOCKET_IFNAME": INTERFACE, **OF_TORCH}
    with Network(2) as network:
        store = f"{network[0].address}:7000"
        ranks = [
            Forked(machine, total, rank, 2, store, environ=environment)
            for rank, machine in enumerate(network)
        ]
        assert [rank.result() for rank in ranks] == [3.0, 3.0]


def start_worker(machine: Machine, rank: int, num_ranks: int, address: str) -> Forked:
    from tests.machines.spans import work

    return Forked(machine, work, rank, num_ranks, environ={environ.ADDRESS: address, **OF_TORCH})


@pytest.mark.slow
def test_workers_of_two_machines_sum_and_hand_a_state_on_over_the_wire_once() -> None:
    """By the address of each machine; a neighbour of one that had it takes it from memory."""
    skip_without_machines()
    skip_without_gloo()
    with Network(2) as network:
        machines = [network[0], network[0], network[1], network[1]]
        workers = [start_worker(machine, rank, 4, machine.address) for rank, machine in enumerate(machines)]
        store = workers[0].hear()
        assert store.startswith(f"{network[0].address}:")
        for worker in workers[1:]:
            worker.tell(store)
        told = [worker.result() for worker in workers]
    assert told == ["10", "10 memory", "10", "10"]


def test_an_address_that_a_machine_has_not_is_named() -> None:
    skip_without_machines()
    skip_without_gloo()
    with Network(1) as network:
        told = start_worker(network[0], 0, 2, "10.9.0.99").result()
        expected = "no network interface of this machine has the address 10.9.0.99"
        assert expected in told and f"{network[0].address} ({INTERFACE})" in told


def test_a_state_folder_can_be_full() -> None:
    skip_without_machines()
    with Network(1, state_bytes=1 << 20) as network:
        command = network[0].popen("dd", "if=/dev/zero", f"of={STATE}/full", "bs=64k", stderr=subprocess.PIPE)
        assert "No space left on device" in command.communicate()[1]
        assert network[0].outside(f"{STATE}/full").stat().st_size == 1 << 20


# ------------------------------------------------------------ commands
def test_a_command_hears_signals_and_ends_as_itself(network: Network) -> None:
    machine = network[0]
    assert machine.popen("sh", "-c", "exit 7").wait() == 7
    command = machine.popen(
        "sh",
        "-c",
        "trap 'exit 3' TERM; echo ready; read -r line",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert line_of(command) == "ready"
    command.terminate()
    assert command.wait(PATIENCE_S) == 3


def test_sigkill_kills_the_command_on_the_machine(network: Network) -> None:
    others = set(network[0].pids())
    command = network[0].popen("sh", "-c", "echo ready; exec sleep 1000", stdout=subprocess.PIPE)
    assert line_of(command) == "ready"
    (pid,) = set(network[0].pids()) - others
    descriptor = os.pidfd_open(pid)
    command.kill()
    assert_ended([descriptor])


# ------------------------------------------------------------ what befalls them
def test_a_partition_cuts_one_off_and_heals(network: Network) -> None:
    one, cut, other = network
    with Talk(one, serve(cut)) as to_cut, Talk(one, serve(other)) as to_other:
        to_cut.say("before")
        assert to_cut.hear().endswith("before")
        cut.partition()
        to_cut.say("meanwhile")
        to_other.say("meanwhile")
        assert to_other.hear().endswith("meanwhile")
        assert not to_cut.hears_within(SILENCE_S)
        cut.heal()
        assert to_cut.hear().endswith("meanwhile"), "TCP sends it again"


#: One process that ignores signals, in a session of its own, and one that forks all the time.
CROWD = """
setsid sh -c 'trap "" TERM HUP INT; echo ready; sleep 1000; :' &
while :; do /bin/true; done
"""


def crowd(machine: Machine) -> subprocess.Popen[str]:
    command = machine.popen("sh", "-c", CROWD, stdout=subprocess.PIPE)
    assert line_of(command) == "ready"
    return command


def test_a_machine_comes_back_with_the_hardware_address_that_others_remember(pair: Network) -> None:
    one, other = pair

    def card() -> str:
        return one.run("ip", "-o", "link", "show", "eth0").split("link/ether ")[1].split()[0]

    before = card()
    assert before not in other.run("ip", "-o", "link", "show", "eth0")
    one.kill()
    one.start()
    assert card() == before


def test_a_kill_takes_every_process(pair: Network) -> None:
    machine, other = pair
    server, command = serve(other), crowd(machine)
    machine.outside(f"{HOME}/mine").touch()
    machine.freeze()  # so that none of them ends before it is opened
    descriptors = [os.pidfd_open(pid) for pid in machine.pids()]
    assert len(descriptors) >= 3
    machine.thaw()
    machine.kill()
    assert_ended(descriptors)
    assert command.wait(PATIENCE_S) == -signal.SIGKILL
    machine.start()
    assert not machine.outside(f"{HOME}/mine").exists()
    with Talk(machine, server) as talk:
        talk.say("again")
        assert talk.hear() == f"{other.name} hears {machine.address} again"


@pytest.mark.slow
def test_a_freeze_stops_all_and_a_thaw_goes_on(pair: Network) -> None:
    frozen, other = pair
    server, command = serve(frozen), crowd(frozen)
    with Talk(other, server) as talk:
        talk.say("before")
        assert talk.hear().endswith("before")
        frozen.freeze()
        pids = frozen.pids()
        talk.say("meanwhile")
        assert not talk.hears_within(SILENCE_S)
        assert sorted(frozen.pids()) == sorted(pids), "nothing was forked, nothing has ended"
        frozen.thaw()
        assert talk.hear().endswith("meanwhile")
    frozen.freeze()
    frozen.kill()
    assert command.wait(PATIENCE_S) == -signal.SIGKILL


#: Starts machines, and waits to be killed.
OWNER = """
import sys
from tests.machines.namespaces import Network
network = Network(2, as_user=sys.argv[1] == "user")
for machine in network:
    machine.popen("sleep", "1000")
network[1].freeze()
print(network.pid, *(pid for machine in network for pid in machine.pids()), flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("maker", ["root", "user"])
def test_nothing_is_left_of_a_test_that_was_killed(maker: str) -> None:
    skip_without_machines()
    words = [sys.executable, "-c", OWNER, maker]
    with subprocess.Popen(
        words, cwd=ROOT, env=with_tests(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        pids = [int(word) for word in line_of(owner).split()]
        assert len(pids) >= 3
        descriptors = [os.pidfd_open(pid) for pid in pids]
        owner.kill()
        assert_ended(descriptors)


#: Two machines, of which one writes a file that the other has not.
ORDINARY = """
from tests.machines.namespaces import Network, why_not
if why_not():
    raise SystemExit(f"cannot: {why_not()}")
with Network(2) as network:
    network[0].run("touch", "/tmp/mine")
    print(network.users, *(machine.outside("/tmp/mine").exists() for machine in network))
"""
NOBODY = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests are run by an ordinary user")
@pytest.mark.parametrize("python", [sys.executable, "/usr/bin/python3"])
def test_an_ordinary_user_has_machines_too(python: str) -> None:
    try:
        done = subprocess.run(
            [python, "-c", ORDINARY],
            cwd=ROOT,
            env=with_tests(),
            capture_output=True,
            text=True,
            check=False,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
        )
    except OSError as error:
        pytest.skip(f"{python} in {ROOT} is not for everybody ({error.strerror})")
    if "cannot: " in done.stderr or "ImportError" in done.stderr:  # this Python may be an old one
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.stdout == "('user',) True False\n", done.stderr


# ------------------------------------------------------------ where they cannot be had
def test_a_process_that_has_many_files_open_has_machines_too(network: Network) -> None:
    """The number of its pidfd is above what select(2) takes, as late in a long run of tests."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < 2 * FD_SETSIZE:
        pytest.skip(f"no more than {limits[1]} files can be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 2 * FD_SETSIZE), limits[1]))
    with ExitStack() as held:
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        while held.enter_context(open(os.devnull)).fileno() < FD_SETSIZE:
            continue
        with Network(1, as_user=True) as other:
            assert other[0].run("hostname").strip() == other[0].name


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    with pytest.raises(NamespacesMissing, match="the program `unshare` is not installed"):
        Network(1)


def test_what_the_kernel_refuses_is_told() -> None:
    """On a machine made by a user: its root may forbid further user namespaces to itself."""
    skip_without_machines()
    with Network(1, as_user=True) as network:
        ask = "from tests.machines.namespaces import Network; Network(1, as_user=True)"
        forbid = "echo 0 > /proc/sys/user/max_user_namespaces"
        command = network[0].popen(
            *("sh", "-c", f'{forbid}; exec "$@"', "sh", sys.executable, "-c", ask),
            cwd=str(ROOT),
            env=with_tests(),
            stderr=subprocess.PIPE,
        )
        assert "NamespacesMissing: unshare: unshare failed: " in command.communicate()[1]
