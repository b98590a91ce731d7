"""What a group that is broken off waits for."""

from __future__ import annotations

import socket
from typing import cast

import pytest
from torch.distributed import ProcessGroup

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


class Recorder:
    """A group that notes that it was aborted."""

    def __init__(self) -> None:
        self.num_aborts = 0

    def abort(self) -> None:
        self.num_aborts += 1
        raise RuntimeError("it was broken already")


@pytest.mark.parametrize("is_cut_before", [True, False])
def test_a_group_that_is_cut_is_aborted_also_where_the_word_came_as_it_formed(is_cut_before: bool) -> None:
    sockets, group = PeerSockets(), Recorder()
    sockets.begin(1)
    for is_before in (True, False):
        if is_before == is_cut_before:
            sockets.cut(1)
        if is_before:
            sockets.tie(cast(ProcessGroup, group))
    sockets.cut(7)
    assert sockets.is_cut
    assert group.num_aborts == 1


def test_a_group_may_be_cut_before_it_begins_to_form() -> None:
    sockets = PeerSockets()
    sockets.begin(1)
    sockets.cut(3)
    assert not sockets.is_cut
    for generation, is_cut in ((2, False), (3, True), (4, False)):
        sockets.release()
        assert not sockets.is_cut
        sockets.begin(generation)
        assert sockets.is_cut is is_cut


def test_a_group_that_was_left_is_not_held() -> None:
    """The thread that lets go of it last waits for its end."""
    sockets, group = PeerSockets(), Recorder()
    sockets.begin(1)
    sockets.tie(cast(ProcessGroup, group))
    sockets.release()
    sockets.part()
    assert group.num_aborts == 0
