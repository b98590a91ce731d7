"""Rows of the page about nodes."""

from __future__ import annotations

import time

from swell.api.page.platform_rows import node_row
from swell.model.view import NodeView


def test_a_node_is_marked_with_the_time_until_which_it_is_there() -> None:
    until_s = 1.8e9
    node = NodeView(name="n", rack="r", kind="cpu", is_borrowed=True, devices={"c0": None}, until_s=until_s)
    clock = time.strftime("%H:%M", time.localtime(until_s))
    assert node_row(node).marks == ("borrowed", f"until {clock}")
