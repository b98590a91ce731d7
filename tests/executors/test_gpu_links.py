"""Islands of GPUs, as NVML tells how they are joined."""

from __future__ import annotations

from itertools import accumulate, pairwise
from types import SimpleNamespace

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.executors.local import gpus
from swell.executors.local.gpus import BY_NVLINK, islands_by_distance, islands_of_gpus
from swell.model.node import Islands, checked, islands_text, parse_islands

SWITCH, SOCKET, MACHINE = 10, 40, 50


def distances_of(parts: list[list[int]]) -> list[list[int]]:
    """`parts`: (socket, switch) of each GPU."""

    def between(one: list[int], other: list[int]) -> int:
        return MACHINE if one[0] != other[0] else SOCKET if one[1] != other[1] else SWITCH

    return [
        [BY_NVLINK if place == other else between(parts[place], parts[other]) for other in range(len(parts))]
        for place in range(len(parts))
    ]


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), min_size=1, max_size=9))
def test_gpus_of_one_island_are_nearer_to_each_other_than_to_any_other(parts: list[list[int]]) -> None:
    distances = distances_of(parts)
    order, islands = islands_by_distance(distances)
    assert sorted(order) == list(range(len(parts)))
    checked(islands, len(parts))
    for sizes in islands:
        inside, across = [-2], [MACHINE + 1]
        island = [number for number, size in enumerate(sizes) for _ in range(size)]
        for one in range(len(parts)):
            for other in range(one):
                near = inside if island[one] == island[other] else across
                near.append(distances[order[one]][order[other]])
        assert max(inside) < min(across)


def test_the_server_of_figure_5() -> None:
    """Two sockets with four GPUs each, here on two switches each, in an order that mixes them."""
    parts = [[number % 2, number // 2 % 2] for number in range(8)]
    order, islands = islands_by_distance(distances_of(parts))
    assert islands_text(islands) == "4/2"
    assert [parts[place] for place in order] == sorted(parts)


def test_nvlink_between_all_makes_them_alike() -> None:
    assert islands_by_distance([[BY_NVLINK] * 4] * 4) == ([0, 1, 2, 3], ())


def fake_nvml(monkeypatch: pytest.MonkeyPatch, linked: set[frozenset[str]]) -> None:
    def ancestor(one: str, other: str) -> int:
        return SOCKET if one[0] == other[0] else MACHINE

    def status(one: str, other: str, what: int) -> int:
        assert what == pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        is_linked = frozenset({one, other}) in linked
        return int(pynvml.NVML_P2P_STATUS_OK if is_linked else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED)

    names = ("NVMLError", "NVML_P2P_CAPS_INDEX_NVLINK", "NVML_P2P_STATUS_OK")
    fake = SimpleNamespace(
        **{name: getattr(pynvml, name) for name in names},
        nvmlDeviceGetHandleByUUID=lambda uuid: uuid,
        nvmlDeviceGetP2PStatus=status,
        nvmlDeviceGetTopologyCommonAncestor=ancestor,
    )
    monkeypatch.setattr(gpus, "pynvml", fake)


def test_nvlink_joins_across_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    uuids = ["a0", "a1", "b0", "b1"]
    fake_nvml(monkeypatch, set())
    assert islands_of_gpus(uuids) == (uuids, ((2, 2),))
    fake_nvml(monkeypatch, {frozenset({"a0", "b0"}), frozenset({"a1", "b1"})})
    assert islands_of_gpus(uuids) == (["a0", "b0", "a1", "b1"], ((2, 2),))


def test_a_machine_without_nvml_tells_no_islands() -> None:
    assert islands_of_gpus(["a0", "b0"]) == (["a0", "b0"], ())


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_islands_are_read_as_they_are_told(sizes: list[int], data: st.DataObject) -> None:
    ends = [0, *accumulate(sizes)]
    inner = tuple(
        part
        for begin, end in pairwise(ends)
        for part in data.draw(st.sampled_from([(end - begin,), (1,) * (end - begin)]))
    )
    islands: Islands = (tuple(sizes), inner)
    text = islands_text(islands)
    assert set(parse_islands(text, sum(sizes))) <= set(islands)
