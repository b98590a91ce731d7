"""What is known of the ends of nodes: kept with the head, told to every core, forgotten with the node."""

from __future__ import annotations

from tests.core.bench import Bench
from tests.core.fakes import node

from swell.model.event import NodeEndKnown, NodeJoined, NodeLost


def test_an_end_may_be_known_before_its_node_joins_and_outlasts_the_head() -> None:
    bench = Bench()
    bench.say(NodeEndKnown(at_s=bench.now_s, name="n1", until_s=500.0))
    bench.say(NodeJoined(at_s=bench.now_s, node=node("n1", 4)))
    assert bench.reborn().ends_s == {"n1": 500.0}


def test_the_latest_word_on_an_end_holds_and_there_may_be_none_any_more() -> None:
    bench = Bench()
    for until_s in (500.0, 300.0):
        bench.say(NodeEndKnown(at_s=bench.now_s, name="n0", until_s=until_s))
        assert bench.core.ends_s == {"n0": until_s}
    bench.say(NodeEndKnown(at_s=bench.now_s, name="n0", until_s=None))
    assert not bench.core.ends_s


def test_an_end_is_forgotten_with_the_host_and_not_while_that_is_only_away() -> None:
    bench = Bench()
    bench.say(NodeEndKnown(at_s=bench.now_s, name="n0", until_s=500.0))
    bench.say(NodeLost(at_s=bench.now_s, name="n0", is_host_kept=True))
    bench.say(NodeJoined(at_s=bench.now_s, node=node("n0", 8)))
    assert bench.core.ends_s
    bench.say(NodeLost(at_s=bench.now_s, name="n0", cause="gone"))
    assert not bench.core.ends_s
