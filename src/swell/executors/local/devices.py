"""Devices of this machine: `auto`, `none`, `cpu[:N]`, `cuda[:N|all]`, `paced:[[RACKSx]NODESx]DEVICES@RATE`.

Each form but `none` may end with islands, as in `cpu:8/4/2`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import msgspec

from swell.executors.gang.job_context import DeviceBinding
from swell.executors.local.gpus import DeviceError as DeviceError
from swell.executors.local.gpus import find_gpus, islands_of_gpus, nvml
from swell.executors.local.limits.allocation import available_cores
from swell.model.names import NAME_RULE, is_plain_name
from swell.model.node import DEFAULT_RACK, InvalidIslands, Islands, Node, parse_islands

FORMS = (
    "auto, cpu, cpu:N, cuda, cuda:N, cuda:all, paced:DEVICES@RATE, paced:NODESxDEVICES@RATE, "
    "paced:RACKSxNODESxDEVICES@RATE, none; behind each, islands of the devices, such as /4 or /4/2"
)
NONE = "none"
CPU = "cpu"
_PACED = re.compile(
    r"(?:(?:(?P<racks>[0-9]+)x)?(?P<nodes>[0-9]+)x)?(?P<devices>[0-9]+)@(?P<rate>[0-9]+(?:\.[0-9]+)?)"
)


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
    racks = {local.node.rack for local in nodes}
    if rack and check_rack(rack) and len(racks) != 1:
        stand = f"stand in {len(racks)} racks of their own" if racks else "are none of this machine"
        raise DeviceError(f"--rack {rack}: devices {text!r} {stand}; leave --rack out, or say --rack ''")
    completed = []
    for node, bindings in ((local.node, local.bindings) for local in nodes):
        if has_islands:
            try:
                chosen = parse_islands(islands, len(node.devices))
            except InvalidIslands as error:
                raise DeviceError(f"devices {text!r}: {error}") from error
            node = msgspec.structs.replace(node, islands=chosen)
        shared = cores  # more slots than cores share these
        if cores is None and node.kind == CPU and len(node.devices) > available_cores():
            shared = float(available_cores())
        each = (
            None if shared is None else shared / len(nodes)
        )  # several nodes of one machine have equal parts
        node = msgspec.structs.replace(node, rack=rack or node.rack, cores=each)
        completed.append(LocalNode(node, bindings))
    return tuple(completed)


def check_rack(name: str) -> str:
    """The same name. Raises DeviceError."""
    if not is_plain_name(name):
        raise DeviceError(f"a rack cannot be called {name!r}; {NAME_RULE}: choose one with --rack")
    return name


def _parse(text: str, num_cores: int) -> tuple[LocalNode, ...]:
    kind, _, count = text.strip().partition(":")
    if kind == NONE and not count:
        return ()
    if kind == "auto" and not count:
        with nvml():
            gpus = find_gpus()
            return (_cuda_node(gpus) if gpus else _cpu_node(num_cores),)
    if kind == CPU:
        return (_cpu_node(_number(text, count) if count else num_cores),)
    if kind == "cuda":
        with nvml():
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
    gpus = find_gpus()
    if not gpus:
        raise DeviceError(f"devices {text!r}: NVML finds no GPU on this machine; use cpu or paced devices")
    if not count or count == "all":
        return gpus
    wanted = _number(text, count)
    if wanted > len(gpus):
        raise DeviceError(f"devices {text!r} asks {wanted} GPUs but this machine has {len(gpus)}; ask fewer")
    return gpus[:wanted]
