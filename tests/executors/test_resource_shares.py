"""Shares of memory, block I/O and network: what is written where, and what a machine cannot do."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.fake_groups import FakeKernel, FakeV1, FakeV2

from swell.api.machine_findings import machine_findings
from swell.assemble import open_platform
from swell.executors.local.containers.group import share_words
from swell.executors.local.containers.network_limit import LEAST_BURST_BYTES, bucket_words, limit_network
from swell.executors.local.limits import resource_shares
from swell.executors.local.limits.control_groups import ControlGroups
from swell.executors.local.limits.detection import (
    check_resource,
    limiter_offers,
    new_limiter,
    resource_offers,
)
from swell.executors.local.limits.limiter import CoreSharing, GangGroup, LimitError
from swell.executors.local.limits.niceness import NiceProcesses
from swell.executors.local.limits.resource_shares import memory_share_bytes, share_rate
from swell.executors.local.machine_probe import probe_machine
from swell.model.resource import Resource
from swell.model.share_mode import ShareMode
from swell.platform_options import PlatformOptions
from swell.settings import make_settings

WEIGHTS = CoreSharing()
QUOTAS = CoreSharing(mode=ShareMode.QUOTA, disk_rate=100_000_000, network_rate=1_000_000)
VERSIONS: list[type[FakeV1 | FakeV2]] = [FakeV1, FakeV2]
HALF = str(memory_share_bytes(0.5))


def kernel_of(version: type[FakeV1 | FakeV2], folder: Path, scheduler: str = "bfq") -> FakeV1 | FakeV2:
    kernel = version(folder / "root")
    kernel.boot()
    kernel.disk("vda", "254:0", scheduler)
    return kernel


def group_of(kernel: FakeV1 | FakeV2, folder: Path, sharing: CoreSharing) -> GangGroup:
    limiter = new_limiter(sharing, folder, kernel)
    assert isinstance(limiter, ControlGroups)
    return limiter.group("job")


def written(kernel: FakeKernel, name: str) -> str:
    """What stands in a file of the group of the gang."""
    found = [file for file in kernel.root.rglob(name) if file.parent.name.startswith("job.")]
    assert len(found) == 1, name
    return found[0].read_text()


@pytest.mark.parametrize(
    ("version", "sharing", "resource", "file", "half", "free"),
    [
        (FakeV1, WEIGHTS, Resource.MEMORY, "memory.soft_limit_in_bytes", HALF, "-1"),
        (FakeV1, WEIGHTS, Resource.BLOCK_IO, "blkio.bfq.weight", "50", "100"),
        (FakeV1, QUOTAS, Resource.BLOCK_IO, "blkio.throttle.read_bps_device", "254:0 50000000", "254:0 0"),
        (FakeV1, QUOTAS, Resource.BLOCK_IO, "blkio.throttle.write_bps_device", "254:0 50000000", "254:0 0"),
        (FakeV2, WEIGHTS, Resource.MEMORY, "memory.low", HALF, "0"),
        (FakeV2, QUOTAS, Resource.MEMORY, "memory.high", HALF, "max"),
        (FakeV2, WEIGHTS, Resource.BLOCK_IO, "io.weight", "default 50", "default 100"),
        (
            *(FakeV2, QUOTAS, Resource.BLOCK_IO, "io.max"),
            *("254:0 rbps=50000000 wbps=50000000", "254:0 rbps=max wbps=max"),
        ),
    ],
)
def test_a_share_is_written_and_ends_with_that_of_another_resource(
    tmp_path: Path,
    version: type[FakeV1 | FakeV2],
    sharing: CoreSharing,
    resource: Resource,
    file: str,
    half: str,
    free: str,
) -> None:
    kernel = kernel_of(version, tmp_path)
    group = group_of(kernel, tmp_path, sharing)
    group.set_share(0.5, resource)
    group.set_share(0.5, resource)
    assert written(kernel, file) == half
    group.set_share(1.0, Resource.CPU)
    if resource is not Resource.MEMORY or version is FakeV2:  # its group of version 1 is looked at no more
        assert written(kernel, file) == free


@pytest.mark.parametrize("version", VERSIONS)
def test_a_group_that_vanished_has_its_share_again(tmp_path: Path, version: type[FakeV1 | FakeV2]) -> None:
    kernel = kernel_of(version, tmp_path)
    group = group_of(kernel, tmp_path, QUOTAS)
    group.set_share(0.5, Resource.BLOCK_IO)
    name = "io.max" if version is FakeV2 else "blkio.throttle.read_bps_device"
    before = written(kernel, name)
    for entry in group.entries:
        kernel.vanish(Path(entry).parent)
    group.keep([])
    assert written(kernel, name) == before


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("sharing", "resource", "says"),
    [
        (WEIGHTS, Resource.NETWORK, "has no weights.* choose --cpu-shares quota with --network-rate"),
        (WEIGHTS, Resource.BLOCK_IO, r"vda: mq-deadline\); let root choose bfq"),
        (CoreSharing(mode=ShareMode.QUOTA), Resource.BLOCK_IO, "--disk-rate 100MB"),
        (CoreSharing(mode=ShareMode.QUOTA), Resource.NETWORK, "--network-rate 100MB|only root|not installed"),
    ],
)
def test_what_cannot_be_divided_is_refused_with_the_remedy(
    tmp_path: Path, version: type[FakeV1 | FakeV2], sharing: CoreSharing, resource: Resource, says: str
) -> None:
    kernel = kernel_of(version, tmp_path, "mq-deadline")
    with pytest.raises(LimitError, match=says):
        check_resource(resource, sharing, kernel)
    group = group_of(kernel, tmp_path, sharing)
    group.set_share(0.5, Resource.CPU)
    with pytest.raises(OSError, match=f"{says}|outside of containers"):
        group.set_share(0.25, resource)
    group.set_share(0.25, Resource.CPU)  # nothing has changed


def test_version_1_slows_no_job_down_for_its_memory(tmp_path: Path) -> None:
    kernel = kernel_of(FakeV1, tmp_path)
    with pytest.raises(LimitError, match=r"does not kill it; choose --cpu-shares weight"):
        check_resource(Resource.MEMORY, QUOTAS, kernel)
    check_resource(Resource.MEMORY, WEIGHTS, kernel)


def test_a_controller_that_is_not_there_is_named(tmp_path: Path) -> None:
    kernel = FakeV1(tmp_path / "root")
    kernel.boot()
    kernel.mounted(
        "\n".join(
            line
            for line in kernel.read(kernel.at("/proc/self/mountinfo")).splitlines()
            if "blkio" not in line
        )
    )
    with pytest.raises(LimitError, match="the controller blkio of cgroup v1 is not there"):
        check_resource(Resource.BLOCK_IO, QUOTAS, kernel)


def test_a_cost_model_weighs_disks_on_version_2_only(tmp_path: Path) -> None:
    kernel = kernel_of(FakeV2, tmp_path, "none")
    kernel.at("/sys/fs/cgroup/io.cost.qos").write_text("254:0 enable=1 ctrl=auto")
    check_resource(Resource.BLOCK_IO, WEIGHTS, kernel)


@pytest.mark.parametrize("resource", [one for one in Resource if one is not Resource.CPU])
def test_niceness_divides_the_cores_alone(resource: Resource) -> None:
    group = NiceProcesses().group("job")
    with pytest.raises(OSError, match=f"no shares of {resource.noun}"):
        group.set_share(0.5, resource)


def test_with_no_shares_nothing_is_refused(tmp_path: Path) -> None:
    kernel = kernel_of(FakeV1, tmp_path, "none")
    for resource in Resource:
        check_resource(resource, CoreSharing(mode=ShareMode.OFF), kernel)


@given(st.floats(1e-9, 1.0), st.floats(1e-9, 1.0), st.integers(1, 10**12))
def test_more_is_never_less(one: float, other: float, rate: int) -> None:
    low, high = sorted((one, other))
    assert 0 < memory_share_bytes(low) <= memory_share_bytes(high)
    assert 0 < share_rate(low, rate) <= share_rate(high, rate) <= rate
    words = bucket_words(rate)
    assert int(words[words.index("burst") + 1].removesuffix("b")) >= LEAST_BURST_BYTES


def test_no_platform_begins_whose_policy_divides_what_its_machine_cannot(tmp_path: Path) -> None:
    options = PlatformOptions(
        state_dir=tmp_path / "state",
        devices="paced:8@200",
        policy="flowcon",
        settings=make_settings({"flowcon.resource": "network"}),
    )
    with pytest.raises(LimitError, match="the policy divides network"), open_platform(options):
        raise AssertionError("it has begun")


# ------------------------------------------------------------ containers
@pytest.mark.parametrize(
    ("sharing", "resource", "words"),
    [
        (WEIGHTS, Resource.MEMORY, ("--memory-reservation", HALF)),
        (WEIGHTS, Resource.BLOCK_IO, ("--blkio-weight", "50")),
        (WEIGHTS, Resource.NETWORK, ()),
        (QUOTAS, Resource.NETWORK, ()),
        (QUOTAS, Resource.BLOCK_IO, ()),
        (CoreSharing(mode=ShareMode.OFF), Resource.MEMORY, ()),
    ],
)
def test_what_an_engine_is_told_of_a_share(
    sharing: CoreSharing, resource: Resource, words: tuple[str, ...]
) -> None:
    assert share_words(0.5, sharing, resource) == words


@pytest.fixture
def namespace() -> Iterator[int]:
    """The pid of a process in a network namespace of its own, whose loopback device is up."""
    code = "ip link set lo up && echo up && read line"
    try:
        process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        pytest.skip("unshare is not installed")
    with process:
        assert process.stdout is not None and process.stdin is not None
        if process.stdout.readline() != b"up\n":
            pytest.skip("no network namespace can be made here")
        yield process.pid
        process.stdin.write(b"\n")
        process.stdin.close()


def test_the_interfaces_of_a_container_are_limited_and_freed(namespace: int) -> None:
    if why_not := resource_shares._why_no_network(ShareMode.QUOTA):
        pytest.skip(why_not)

    def shown() -> str:
        words = ["nsenter", "--target", str(namespace), "--net", "tc", "qdisc", "show", "dev", "lo"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    assert limit_network(namespace, 1_000_000) == ""
    assert "tbf" in shown() and "rate 8Mbit" in shown()
    assert limit_network(namespace, 500_000) == "" and "rate 4Mbit" in shown()
    assert limit_network(namespace, None) == "" and "tbf" not in shown()


#: Sends to itself for ever, and prints a line for each megabyte that has arrived.
SENDER = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
line = socket.create_connection(listener.getsockname())
other, _ = listener.accept()
def push():
    while True:
        line.sendall(bytes(1 << 20))
threading.Thread(target=push, daemon=True).start()
count = 0
while got := len(other.recv(1 << 20)):
    count += got
    for _ in range(count >> 20):
        print("arrived", flush=True)
    count %= 1 << 20
"""


def test_traffic_goes_on_when_its_limit_becomes_smaller(namespace: int) -> None:
    """It takes two seconds: some megabytes have to pass at each rate."""
    if why_not := resource_shares._why_no_network(ShareMode.QUOTA):
        pytest.skip(why_not)
    words = ["nsenter", "--target", str(namespace), "--net", sys.executable, "-c", SENDER]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as sender:
        assert sender.stdout is not None
        stuck = threading.Timer(30.0, sender.kill)  # then there are no more lines
        stuck.start()
        try:
            for rate in (60_000_000, 12_000_000) * 2:
                assert limit_network(namespace, rate) == ""
                assert [sender.stdout.readline() for _ in range(8)] == ["arrived\n"] * 8
        finally:
            stuck.cancel()
            sender.kill()


def test_a_container_that_is_gone_is_told() -> None:
    assert "its network cannot be limited" in limit_network(2**22 + 1, 1000)


# ------------------------------------------------------------ this machine
def test_memory_of_this_machine_has_soft_limits(tmp_path: Path) -> None:
    limiter = new_limiter(WEIGHTS, tmp_path)
    if not isinstance(limiter, ControlGroups) or resource_offers(ShareMode.WEIGHT)[0].why_not:
        pytest.skip("; ".join(offer.why_not for offer in limiter_offers()))
    try:
        group = limiter.group("job")
        group.set_share(0.5, Resource.MEMORY)
        folder = next(
            Path(entry).parent for entry in group.entries if (Path(entry).parent / "memory.stat").exists()
        )
        name = "memory.low" if (folder / "memory.low").exists() else "memory.soft_limit_in_bytes"
        assert int((folder / name).read_text()) == memory_share_bytes(0.5)
        assert group.usage().cpu_s >= 0.0
        group.close()
    finally:
        limiter.close()


def test_the_doctor_says_what_else_can_be_divided(tmp_path: Path) -> None:
    found = {finding.about: finding.text for finding in machine_findings(probe_machine(tmp_path))}
    assert found["network shares"].startswith("not offered: the network has no weights")
    assert {"memory shares", "block I/O shares"} <= found.keys()
