"""What an agent makes of its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.executors.local.agent.options import LOOPBACK, AgentOptions


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("10.9.0.1:7070", "10.9.0.1"),
        ("10.9.0.1", "10.9.0.1"),
        ("[fd00::1]:7070", "fd00::1"),
        ("0.0.0.0:7070", LOOPBACK),
        ("[::]:7070", LOOPBACK),
        ("head.example:7070", LOOPBACK),
        ("", LOOPBACK),
    ],
)
def test_workers_of_other_hosts_reach_a_head_where_hosts_join_it(listen: str, address: str) -> None:
    """Where that is one address; else gangs have no workers on the head and on another host together."""
    assert AgentOptions(state_dir=Path(), listen=listen).reached_at == address
