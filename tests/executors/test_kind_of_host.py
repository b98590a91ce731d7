"""The kind of a host's devices: what they are, or what its owner calls them."""

from __future__ import annotations

from swell.executors.node.options import NodeOptions


def options(kind: str = "") -> NodeOptions:
    return NodeOptions(
        join="127.0.0.1:7070",
        token_file="token",
        name="n1",
        devices="paced:2@200",
        kind=kind,
        advertise="127.0.0.1",
    )


def test_devices_are_called_what_they_are_or_as_their_owner_says() -> None:
    plain, named = options().node(), options("a100").node()
    assert (plain.node.kind, named.node.kind) == ("paced@200", "a100")
    for found in (plain, named):
        assert found.node.devices == tuple(found.bindings) == ("n1/0", "n1/1")
        assert {binding.kind for binding in found.bindings.values()} == {found.node.kind}
        assert {binding.pace_per_s for binding in found.bindings.values()} == {200.0}
