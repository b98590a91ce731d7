from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.executors.fake_nvml import FakeGpu, FakeNvml

from swell.executors.local import devices as module
from swell.executors.local import gpus as nvml_module
from swell.executors.local.devices import DeviceError, parse_devices
from swell.executors.node.options import NodeOptions

GPUS = [("GPU-aa", "NVIDIA H200"), ("GPU-ab", "NVIDIA H200"), ("GPU-b", "NVIDIA H200")]


def test_paced_devices_of_several_nodes() -> None:
    nodes = parse_devices("paced:2x8@400")
    assert [node.node.name for node in nodes] == ["node0", "node1"]
    assert nodes[1].node.devices[3] == "node1/3"
    assert nodes[0].node.kind == "paced@400"
    binding = nodes[0].bindings["node0/0"]
    assert (binding.torch_device, binding.pace_per_s) == ("cpu", 400.0)


def test_cores() -> None:
    (node,) = parse_devices("cpu:3")
    assert node.node.devices == ("node0/0", "node0/1", "node0/2")
    (node,) = parse_devices("cpu")
    assert len(node.node.devices) == len(os.sched_getaffinity(0))


def test_slots_may_share_cores() -> None:
    num_cores = len(os.sched_getaffinity(0))
    assert parse_devices("cpu")[0].node.cores is None, "each has its own"
    assert parse_devices(f"cpu:{num_cores + 1}")[0].node.cores == num_cores
    (node,) = parse_devices("cpu:10", cores=1.5)
    assert (len(node.node.devices), node.node.cores) == (10, 1.5)
    assert len(parse_devices("cpu", cores=1.0)[0].node.devices) == 1
    assert [node.node.cores for node in parse_devices("paced:2x8@400", cores=1.0)] == [0.5, 0.5]
    assert [node.node.cores for node in parse_devices("paced:2x8@400")] == [None, None]


def test_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_gpus", lambda: GPUS)
    for text in ("auto", "cuda", "cuda:all"):
        (node,) = parse_devices(text)
        assert node.node.kind == "cuda:NVIDIA H200"
        assert [binding.cuda for binding in node.bindings.values()] == ["GPU-aa", "GPU-ab", "GPU-b"]
        assert {binding.torch_device for binding in node.bindings.values()} == {"cuda:0"}
    (node,) = parse_devices("cuda:1")
    assert node.node.devices == ("node0/0",)
    with pytest.raises(DeviceError, match="asks 4 GPUs but this machine has 3"):
        parse_devices("cuda:4")
    monkeypatch.setattr(module, "find_gpus", lambda: [*GPUS, ("GPU-c", "Tesla T4")])
    with pytest.raises(DeviceError, match="2 kinds"):
        parse_devices("cuda")


T4, H200 = FakeGpu("GPU-0123456789", "Tesla T4", None), FakeGpu("GPU-abcdefabcd")
OTHER_H200, EMPTY = FakeGpu("GPU-abcdefab99"), FakeGpu("GPU-77", is_divided=True)
SLICES = [FakeGpu(f"MIG-5c89852c-{number}", "NVIDIA H200 MIG 1g.18gb") for number in range(3)]
DIVIDED = FakeGpu("GPU-88", is_divided=True, slices=SLICES)


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the GPUs of the machine, and CUDA_VISIBLE_DEVICES."""

    def set_to(*gpus: FakeGpu, visible: str | None = None) -> None:
        monkeypatch.setattr(nvml_module, "pynvml", FakeNvml(*gpus))
        monkeypatch.setattr(module, "islands_of_gpus", lambda uuids: (uuids, ()))
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return set_to


@pytest.mark.parametrize("text", ["auto", "cuda", "cuda:1"])
@pytest.mark.parametrize(
    ("gpus", "visible", "why"),
    [
        ([H200], "MIG-5c89852c-0", "'MIG-5c89852c-0', which is no GPU of this machine"),
        ([H200], "0,MIG-x", "'MIG-x', which is no GPU of this machine"),
        ([DIVIDED], "MIG-5c", "'MIG-5c', which is more than one GPU of this machine"),
        ([EMPTY], None, "GPU GPU-77 (NVIDIA H200) is divided by MIG and has no instance"),
        ([H200, EMPTY], "1", "GPU GPU-77 (NVIDIA H200) is divided"),
        ([H200], "7", "'7', which is no GPU of this machine: it has numbers 0 to 0"),
        ([H200], "GPU-other", "'GPU-other', which is no GPU of this machine"),
        ([H200, OTHER_H200], "GPU-abc", "'GPU-abc', which is more than one GPU of this machine"),
    ],
)
def test_what_names_no_gpu_is_refused_and_no_cpus_are_offered_instead(
    nvml: Callable[..., None], gpus: list[Any], visible: str | None, why: str, text: str
) -> None:
    nvml(*gpus, visible=visible)
    with pytest.raises(DeviceError, match=re.escape(why)) as raised:
        parse_devices(text)
    assert "--devices cpu" in str(raised.value)


@pytest.mark.parametrize("visible", ["", "-1", "NoDevFiles"])
def test_who_hides_all_gpus_is_offered_cpus(nvml: Callable[..., None], visible: str) -> None:
    nvml(H200, visible=visible)
    assert parse_devices("auto")[0].node.kind == "cpu"


def test_a_gpu_that_is_divided_may_be_left_out(nvml: Callable[..., None]) -> None:
    nvml(EMPTY, H200, visible="1")
    assert parse_devices("auto")[0].node.kind == "cuda:NVIDIA H200"


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [(None, [0, 1, 2]), ("0", [0, 1, 2]), ("MIG-5c89852c-2,MIG-5c89852c-0", [2, 0]), ("GPU-88", [0, 1, 2])],
)
def test_instances_of_mig_are_devices_of_their_kind(
    nvml: Callable[..., None], visible: str | None, numbers: list[int]
) -> None:
    nvml(DIVIDED, visible=visible)
    (local,) = parse_devices("auto")
    assert local.node.kind == "cuda:NVIDIA H200 MIG 1g.18gb"
    assert [one.cuda for one in local.bindings.values()] == [SLICES[number].uuid for number in numbers]
    assert not local.node.can_sum


def test_a_host_of_instances_keeps_their_kind_in_any_name_that_it_gives_them(
    nvml: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml(DIVIDED)
    options = NodeOptions(join="127.0.0.1:1", name="a", advertise="127.0.0.1", devices="cuda")
    with pytest.raises(DeviceError, match="MIG instances"):
        msgspec.structs.replace(options, kind="small").node()
    assert not msgspec.structs.replace(options, kind="small MIG 1g").node().node.can_sum


def test_whole_gpus_and_instances_are_two_kinds(nvml: Callable[..., None]) -> None:
    nvml(H200, DIVIDED)
    with pytest.raises(DeviceError, match=r"2 kinds.*CUDA_VISIBLE_DEVICES=MIG-5c89852c-0,MIG"):
        parse_devices("auto")


def test_a_variable_of_another_machine_means_nothing_where_there_is_no_gpu(nvml: Callable[..., None]) -> None:
    nvml(visible="MIG-x")
    assert parse_devices("auto")[0].node.kind == "cpu"


def test_the_remedy_for_gpus_of_several_kinds_chooses_those_of_one(nvml: Callable[..., None]) -> None:
    """By UUID: CUDA counts GPUs in another order than NVML, where they differ."""
    nvml(T4, H200, OTHER_H200)
    with pytest.raises(DeviceError, match="2 kinds") as raised:
        parse_devices("auto")
    choices = re.findall(r"CUDA_VISIBLE_DEVICES=(\S+) \((.*?)\)", str(raised.value))
    assert [kind for _, kind in choices] == ["cuda:NVIDIA H200", "cuda:Tesla T4"]
    for visible, kind in choices:
        nvml(T4, H200, OTHER_H200, visible=visible)
        (node,) = parse_devices("auto")
        assert node.node.kind == kind
        assert [binding.cuda for binding in node.bindings.values()] == [
            gpu.uuid for gpu in (T4, H200, OTHER_H200) if kind == f"cuda:{gpu.name}"
        ]


def test_without_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_gpus", list)
    assert parse_devices("auto")[0].node.kind == "cpu"
    with pytest.raises(DeviceError, match="finds no GPU"):
        parse_devices("cuda:1")


REFUSED = "none:1 gpu cpu:0 cpu:-1 cpu:x cpu:² auto:2 paced paced:8 paced:8@ paced:0@4 paced:8@0 paced:1x0@4"


@pytest.mark.parametrize("text", REFUSED.split())
def test_what_is_no_device_is_refused_by_name(text: str) -> None:
    with pytest.raises(DeviceError, match=f"devices '{text}'"):
        parse_devices(text)


@pytest.mark.parametrize(
    ("text", "rack", "complaint"),
    [
        ("cpu:1", "a rack", "a rack cannot be called 'a rack'.*choose one with --rack"),
        ("cpu:1", "r" * 41, "has 1 to 40 letters"),
        (
            "paced:2x1x4@4",
            "east",
            "--rack east: devices 'paced:2x1x4@4' stand in 2 racks of their own; leave",
        ),
        ("none", "east", "--rack east: devices 'none' are none of this machine; leave --rack out"),
    ],
)
def test_a_rack_that_cannot_be(text: str, rack: str, complaint: str) -> None:
    with pytest.raises(DeviceError, match=complaint):
        parse_devices(text, rack=rack)


def test_paced_nodes_may_stand_in_racks() -> None:
    nodes = [one.node for one in parse_devices("paced:2x3x4@400/2")]
    assert [node.rack for node in nodes] == ["rack0"] * 3 + ["rack1"] * 3
    assert {node.islands for node in nodes} == {((2, 2),)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cpu:8/3", "no whole number of islands of 3"),
        ("cpu:8/3+4", "not the node's 8 devices"),
        ("cpu:8/4/3+5", "across the border of a larger one"),
        ("cpu:8/0+8", "write numbers of devices"),
        ("cpu:8/", "write numbers of devices"),
        ("cpu:8/x", "write numbers of devices"),
        ("cpu:8/4/4/4/4/4/4/4/4/4", "at most 8"),
        ("none/4", "no devices that could have islands"),
        ("paced:0x2x4@4", "racks, nodes, devices and rate"),
    ],
)
def test_islands_that_cannot_be(text: str, why: str) -> None:
    with pytest.raises(DeviceError, match=re.escape(why)):
        parse_devices(text)


def test_gpus_of_an_island_are_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus = [(f"GPU-{number}", "NVIDIA H200") for number in range(4)]
    monkeypatch.setattr(module, "find_gpus", lambda: gpus)
    order = ["GPU-0", "GPU-2", "GPU-1", "GPU-3"]
    monkeypatch.setattr(module, "islands_of_gpus", lambda uuids: (order, ((2, 2),)))
    (node,) = parse_devices("cuda")
    assert [binding.cuda for binding in node.bindings.values()] == order
    assert node.node.islands == ((2, 2),)
    assert parse_devices("cuda/4")[0].node.islands == (), "who starts the host knows better"
