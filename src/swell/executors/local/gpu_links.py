"""How the GPUs of this machine are joined: by NVLink, by a PCIe switch, through a CPU socket."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pynvml

from swell.model.islands import Islands, telling

#: Closeness of two GPUs that NVLink joins: below that of any pair that only PCIe joins.
BY_NVLINK = -1


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
