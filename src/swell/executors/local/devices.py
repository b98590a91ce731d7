"""Devices of this machine: `auto`, `none`, `cpu[:N]`, `cuda[:N|all]`, `paced:[[RACKSx]NODESx]DEVICES@RATE`.

Each form but `none` may end with islands, as in `cpu:8/4/2`.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations

import msgspec
import pynvml

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.local.limits.allocation import available_cores
from swell.model.errors import InvalidOption
from swell.model.names import NAME_RULE, is_plain_name
from swell.model.node import DEFAULT_RACK, InvalidIslands, Islands, Node, parse_islands, telling

FORMS = (
    "auto, cpu, cpu:N, cuda, cuda:N, cuda:all, paced:DEVICES@RATE, paced:NODESxDEVICES@RATE, "
    "paced:RACKSxNODESxDEVICES@RATE, none; behind each, islands of the devices, such as /4 or /4/2"
)
NONE = "none"
CPU = "cpu"
#: What in CUDA_VISIBLE_DEVICES says that there is no GPU, or no further one.
NO_GPU = ("", "-1", "NoDevFiles", "none", "void")
_NO_SLICES = (
    "Swell offers whole GPUs, because NCCL sums nothing between slices of one: turn MIG off with `nvidia-smi "
    "-mig 0`, name whole GPUs in CUDA_VISIBLE_DEVICES, or offer other devices with --devices cpu"
)
_PACED = re.compile(
    r"(?:(?:(?P<racks>[0-9]+)x)?(?P<nodes>[0-9]+)x)?(?P<devices>[0-9]+)@(?P<rate>[0-9]+(?:\.[0-9]+)?)"
)

#: Closeness of two GPUs that NVLink joins: below that of any pair that only PCIe joins.
BY_NVLINK = -1


class DeviceError(InvalidOption):
    """These devices cannot be offered; the text names the thing, the rule and the remedy."""


@dataclass(frozen=True, slots=True)
class LocalNode:
    """A node to tell the head of, and what stands behind each of its device ids."""

    node: Node
    bindings: dict[str, DeviceBinding]


def parse_devices(text: str, cores: float | None = None, rack: str = "") -> tuple[LocalNode, ...]:
    """The nodes that a user means; more than one only where devices are paced, none where other machines are
    to bring all devices.

    Args:
        cores: of this machine, that the workers of all nodes share; None: no number was given.
        rack: in which this machine stands; empty: none was named.

    Raises:
        DeviceError: not one of the forms, or more than this machine has.
    """
    words, has_islands, islands = text.strip().partition("/")
    nodes = _parse(words, math.ceil(cores) if cores else available_cores())
    if has_islands and not nodes:
        raise DeviceError(
            f"devices {text!r}: there are no devices that could have islands; leave {islands!r} out"
        )
    if has_islands:
        nodes = tuple(_with_islands(local, text, islands) for local in nodes)
    if rack:
        nodes = _in_rack(nodes, text, check_rack(rack))
    return tuple(_with_cores(node, len(nodes), cores) for node in nodes)


def _with_islands(local: LocalNode, text: str, islands: str) -> LocalNode:
    try:
        chosen = parse_islands(islands, len(local.node.devices))
    except InvalidIslands as error:
        raise DeviceError(f"devices {text!r}: {error}") from error
    return LocalNode(msgspec.structs.replace(local.node, islands=chosen), local.bindings)


def check_rack(name: str) -> str:
    """The same name. Raises DeviceError."""
    if not is_plain_name(name):
        raise DeviceError(f"a rack cannot be called {name!r}; {NAME_RULE}: choose one with --rack")
    return name


def _in_rack(nodes: tuple[LocalNode, ...], text: str, rack: str) -> tuple[LocalNode, ...]:
    racks = {local.node.rack for local in nodes}
    if len(racks) != 1:
        stand = f"stand in {len(racks)} racks of their own" if racks else "are none of this machine"
        raise DeviceError(f"--rack {rack}: devices {text!r} {stand}; leave --rack out, or say --rack ''")
    return tuple(LocalNode(msgspec.structs.replace(local.node, rack=rack), local.bindings) for local in nodes)


def _with_cores(local: LocalNode, num_nodes: int, cores: float | None) -> LocalNode:
    """Several nodes of one machine have equal parts of its cores. More slots than cores share these."""
    node = local.node
    if cores is None and node.kind == CPU and len(node.devices) > available_cores():
        cores = float(available_cores())
    if cores is None:
        return local
    return LocalNode(msgspec.structs.replace(node, cores=cores / num_nodes), local.bindings)


def _parse(text: str, num_cores: int) -> tuple[LocalNode, ...]:
    kind, _, count = text.strip().partition(":")
    if kind == NONE and not count:
        return ()
    if kind == "auto" and not count:
        with _nvml():
            gpus = _find_gpus()
            return (_cuda_node(gpus) if gpus else _cpu_node(num_cores),)
    if kind == CPU:
        return (_cpu_node(_number(text, count) if count else num_cores),)
    if kind == "cuda":
        with _nvml():
            return (_cuda_node(_choose_gpus(text, count)),)
    if kind == "paced" and (match := _PACED.fullmatch(count)):
        return _paced_nodes(text, match)
    raise DeviceError(f"devices {text!r} are not known; write one of: {FORMS}")


def _node(
    name: str, kind: str, bindings: list[DeviceBinding], rack: str = DEFAULT_RACK, islands: Islands = ()
) -> LocalNode:
    ids = tuple(f"{name}/{i}" for i in range(len(bindings)))
    node = Node(name=name, devices=ids, kind=kind, rack=rack, islands=islands)
    return LocalNode(node, dict(zip(ids, bindings, strict=True)))


def _cpu_node(num: int) -> LocalNode:
    return _node("node0", CPU, [DeviceBinding(torch_device="cpu", kind=CPU)] * num)


def _cuda_node(gpus: list[tuple[str, str]]) -> LocalNode:
    kinds = sorted({f"cuda:{name}" for _, name in gpus})
    if len(kinds) > 1:
        # By UUID: CUDA may count GPUs in another order than NVML.
        choices = [
            f"CUDA_VISIBLE_DEVICES={','.join(uuid for uuid, name in gpus if kind == f'cuda:{name}')} ({kind})"
            for kind in kinds
        ]
        raise DeviceError(
            f"this machine has GPUs of {len(kinds)} kinds; a node has one kind: choose with "
            + " or ".join(choices)
        )
    uuids, islands = islands_of_gpus([uuid for uuid, _ in gpus])
    bindings = [DeviceBinding(torch_device="cuda:0", kind=kinds[0], cuda=uuid) for uuid in uuids]
    return _node("node0", kinds[0], bindings, islands=islands)


def _paced_nodes(text: str, match: re.Match[str]) -> tuple[LocalNode, ...]:
    num_racks, num_nodes = int(match["racks"] or 1), int(match["nodes"] or 1)
    num_devices, rate_per_s = int(match["devices"]), float(match["rate"])
    if min(num_racks, num_nodes, num_devices) < 1 or rate_per_s <= 0:
        raise DeviceError(f"devices {text!r}: racks, nodes, devices and rate must all be above 0")
    kind = f"paced@{rate_per_s:g}"
    one = DeviceBinding(torch_device="cpu", kind=kind, pace_per_s=rate_per_s)
    return tuple(
        _node(f"node{i}", kind, [one] * num_devices, rack=f"rack{i // num_nodes}")
        for i in range(num_racks * num_nodes)
    )


def _number(text: str, count: str) -> int:
    if not count.isascii() or not count.isdigit() or int(count) < 1:
        raise DeviceError(f"devices {text!r}: {count!r} is not a number of devices; write one of: {FORMS}")
    return int(count)


def _choose_gpus(text: str, count: str) -> list[tuple[str, str]]:
    gpus = _find_gpus()
    if not gpus:
        raise DeviceError(f"devices {text!r}: NVML finds no GPU on this machine; use cpu or paced devices")
    if not count or count == "all":
        return gpus
    wanted = _number(text, count)
    if wanted > len(gpus):
        raise DeviceError(f"devices {text!r} asks {wanted} GPUs but this machine has {len(gpus)}; ask fewer")
    return gpus[:wanted]


@contextmanager
def _nvml() -> Iterator[None]:
    """Initialise NVML if it is there. That takes seconds where no process keeps the driver loaded."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield
        return
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def _find_gpus() -> list[tuple[str, str]]:
    """(UUID, product name) of each GPU that CUDA_VISIBLE_DEVICES leaves visible; empty without NVML.

    Raises DeviceError: it names what is no GPU, or one is divided into slices.
    """
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
    except pynvml.NVMLError_Uninitialized:
        return []
    found = [(pynvml.nvmlDeviceGetUUID(h), pynvml.nvmlDeviceGetName(h)) for h in handles]
    divided = {gpu for gpu, handle in zip(found, handles, strict=True) if _is_divided(handle)}
    visible = _visible(found, os.environ.get("CUDA_VISIBLE_DEVICES"))
    for uuid, name in visible:
        if (uuid, name) in divided:
            raise DeviceError(f"GPU {uuid} ({name}) is divided into MIG slices; {_NO_SLICES}")
    return visible


def _is_divided(gpu: object) -> bool:
    """Whether its MIG mode is on."""
    try:
        return bool(pynvml.nvmlDeviceGetMigMode(gpu)[0])
    except pynvml.NVMLError:  # a kind of GPU that cannot be divided
        return False


def _visible(gpus: list[tuple[str, str]], chosen: str | None) -> list[tuple[str, str]]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES (`chosen`) leaves, in its order.

    It lists numbers, as NVML has them (in order of the PCI bus), or beginnings of UUIDs. As for CUDA, what
    says that there is none ends the list. Raises DeviceError: it names what is no GPU.
    """
    if chosen is None or not gpus:
        return gpus
    visible: list[tuple[str, str]] = []
    for name in (part.strip() for part in chosen.split(",")):
        if name in NO_GPU:
            break
        if name.startswith("MIG-"):
            raise DeviceError(f"CUDA_VISIBLE_DEVICES names {name!r}, a MIG slice of a GPU; {_NO_SLICES}")
        if name.isdecimal():
            matches = gpus[int(name) : int(name) + 1]
        else:
            matches = [gpu for gpu in gpus if gpu[0].startswith(name)]
        if len(matches) != 1:
            raise DeviceError(
                f"CUDA_VISIBLE_DEVICES names {name!r}, which is {'no' if not matches else 'more than one'} "
                f"GPU of this machine: it has numbers 0 to {len(gpus) - 1}, and the UUIDs that `nvidia-smi "
                "-L` lists; correct it, or offer other devices with --devices cpu"
            )
        visible.append(matches[0])
    return visible


def islands_of_gpus(uuids: Sequence[str]) -> tuple[Sequence[str], Islands]:
    """The GPUs in an order in which those of an island are neighbours, and their islands.

    None, where NVML does not tell how they are joined, or where all are joined alike. The caller has
    initialised NVML.
    """
    try:
        handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]
        distances = [[_distance(one, other) for other in handles] for one in handles]
    except pynvml.NVMLError:
        return uuids, ()
    order, islands = islands_by_distance(distances)
    return [uuids[place] for place in order], islands


def _distance(one: object, other: object) -> int:
    """NVLink, else the lowest part of the machine that both GPUs hang from, as NVML numbers these."""
    if one is other or _are_linked(one, other):
        return BY_NVLINK
    return int(pynvml.nvmlDeviceGetTopologyCommonAncestor(one, other))


def _are_linked(one: object, other: object) -> bool:
    """Whether NVLink joins the two GPUs."""
    capability = pynvml.NVML_P2P_CAPS_INDEX_NVLINK
    try:
        return bool(pynvml.nvmlDeviceGetP2PStatus(one, other, capability) == pynvml.NVML_P2P_STATUS_OK)
    except pynvml.NVMLError:  # a driver or a GPU that does not know the question
        return False


def islands_by_distance(distances: Sequence[Sequence[int]]) -> tuple[Sequence[int], Islands]:
    """An order of the devices, and the islands that they have in it.

    An island of a level is a set of devices each of which has another one of it within some distance.

    Args:
        distances: of each pair of devices; alike in both directions.
    """
    num = len(distances)
    limits = sorted({distance for row in distances for distance in row}, reverse=True)
    labels = [_components(distances, limit) for limit in limits]
    order = sorted(range(num), key=lambda device: [label[device] for label in labels])
    levels = tuple(tuple(Counter(label[device] for device in order).values()) for label in labels)
    return order, telling(levels, num)


def _components(distances: Sequence[Sequence[int]], limit: int) -> list[int]:
    """The lowest device that can be reached from each device by steps of at most this distance."""
    label = list(range(len(distances)))
    for one, other in combinations(range(len(distances)), 2):
        if distances[one][other] <= limit:
            low, high = sorted((label[one], label[other]))
            label = [low if each == high else each for each in label]
    return label
