"""A platform has devices of one kind: another one is refused, told, and never planned with."""

from __future__ import annotations

import msgspec
from tests.core.bench import Bench
from tests.core.fakes import core_of, node

from swell.core.core import Core
from swell.live.recovery import changed_nodes
from swell.model.cluster import Cluster, Node
from swell.model.event import NodeJoined, NodeLost


def of_kind(kind: str, name: str, num_devices: int = 4) -> Node:
    return msgspec.structs.replace(node(name, num_devices), kind=kind)


def kinds(core: Core) -> list[str]:
    return sorted({node.kind for node in core.cluster.nodes})


def test_a_node_of_a_second_kind_is_refused_until_the_others_are_gone() -> None:
    bench = Bench()
    other = of_kind("cuda:NVIDIA H200", "n1")
    bench.say(NodeJoined(at_s=bench.now_s, node=other))
    assert kinds(bench.core) == ["fake"]
    (why,) = bench.core.refused_nodes.values()
    assert "cuda:NVIDIA H200" in why and "fake" in why
    reborn = core_of(bench.policy)
    reborn.load(bench.core.save())
    assert reborn.refused_nodes == bench.core.refused_nodes
    bench.say(NodeLost(at_s=bench.now_s, name="n0"), NodeJoined(at_s=bench.now_s, node=other))
    assert kinds(bench.core) == ["cuda:NVIDIA H200"] and not bench.core.refused_nodes


def test_all_nodes_can_be_of_another_kind_at_the_next_start() -> None:
    """Each name stays: the last of the old kind is gone before the first of the new one joins."""
    before = Cluster((of_kind("slow", "n0"), of_kind("slow", "n1"), of_kind("slow", "n2")))
    now = [of_kind("fast", "n0"), of_kind("fast", "n1")]
    core = core_of()
    core.handle([NodeJoined(at_s=0.0, node=node) for node in before.nodes])
    core.handle(changed_nodes(core.cluster, now, 1.0))
    assert core.cluster.nodes == tuple(now) and not core.refused_nodes
    assert changed_nodes(core.cluster, now, 2.0) == []


def test_a_journal_with_two_kinds_can_be_read_and_is_of_one_kind_from_the_next_start_on() -> None:
    bench = Bench()
    saved = msgspec.json.decode(bench.core.save())
    saved["cluster"]["nodes"].append(msgspec.to_builtins(of_kind("other", "n1")))
    del saved["refused_nodes"], saved["unknown_gangs"]
    old = core_of(bench.policy)
    old.load(msgspec.json.encode(saved))
    assert kinds(old) == ["fake", "other"]
    old.handle(changed_nodes(old.cluster, [of_kind("other", "n1")], bench.now_s))
    assert kinds(old) == ["other"]
