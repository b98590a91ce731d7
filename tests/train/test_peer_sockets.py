"""What a group that is broken off waits for."""

from __future__ import annotations

import socket

import pytest

from swell.train.collective.peer_sockets import PeerSockets


def listen() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10.0)
    return listener


def test_a_wait_for_a_peer_to_connect_is_cut_where_that_was_asked_for() -> None:
    """NCCL waits so without a limit. What others are to find later, as the store, listens on."""
    sockets = PeerSockets()
    sockets.begin(1)
    with sockets.connecting():
        store = listen()
        sockets.cut(1)
    with sockets.connecting(ends_listening=True):
        waiting = listen()
        sockets.cut(1)
    with store, waiting:
        with pytest.raises(OSError, match="Invalid argument"):
            waiting.accept()
        with socket.create_connection(store.getsockname(), 10.0):
            store.accept()[0].close()
