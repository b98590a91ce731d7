"""What a group that is broken off waits for."""

from __future__ import annotations

import socket
from typing import cast

import pytest
from tests.eventually import PATIENCE_S
from torch.distributed import ProcessGroup

from swell.train.collective.process_groups import PeerSockets


def listen() -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(PATIENCE_S)
    return listener


def connected(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    near = socket.create_connection(listener.getsockname(), PATIENCE_S)
    return near, listener.accept()[0]


def test_a_wait_for_a_peer_to_connect_can_be_ended() -> None:
    """NCCL waits so without a limit. What listened before the group began to form listens on."""
    sockets = PeerSockets()
    with listen() as older:
        sockets.begin()
        with listen() as waiting:
            sockets.end_connecting()
            with pytest.raises(OSError, match="Invalid argument"):
                waiting.accept()
        for end in connected(older):
            end.close()


def test_a_connection_is_the_groups_if_both_ends_were_made_while_it_formed() -> None:
    """The script opens others meanwhile: what they are closed by is no peer, and they are not cut."""
    sockets = PeerSockets()
    with listen() as older:
        before = connected(older)
        sockets.begin()
        of_peers, of_script = connected(older), connected(older)
        ends = sockets.ends()
        assert len(ends) == 4
        known = [each for each in ends if each[0] != name_of(of_script[1])]  # a server's, in another process
        sockets.tie(known, None)
        of_script[1].close()
        sockets.cut()
        before[1].sendall(b"x")
        assert before[0].recv(1) == b"x"
        assert of_peers[0].recv(1) == b""
        for end in (*before, *of_peers, of_script[0]):
            end.close()


def name_of(end: socket.socket) -> str:
    return "{} {}".format(*end.getsockname())


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
    sockets.begin()
    if is_cut_before:
        sockets.cut()
    sockets.tie([], cast(ProcessGroup, group))
    if not is_cut_before:
        sockets.cut()
    assert sockets.is_cut
    assert group.num_aborts == 1
