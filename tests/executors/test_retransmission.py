"""What is said arrives once and in order, whatever gets lost: one sender, one receiver, lines that break."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from swell.executors.retransmission import ReceivedNumbers, RetransmissionQueue

MOVES = ("add", "send", "arrive", "acknowledge", "break")


@given(st.lists(st.sampled_from(MOVES), max_size=80))
def test_each_message_is_news_once_and_in_order_however_often_the_line_breaks(moves: list[str]) -> None:
    queue, received = RetransmissionQueue[int](), ReceivedNumbers()
    received.begin("a")
    line, heard = deque[tuple[int, int]](), list[int]()

    def send() -> None:
        if (following := queue.take_next()) is not None:
            line.append(following)

    def arrive() -> None:
        if line and received.take(line[0][0]):
            heard.append(line[0][1])
        if line:
            line.popleft()

    def acknowledge() -> None:
        if received.acknowledge(received.num_received):
            queue.acknowledge(received.num_received)

    def break_line() -> None:
        line.clear()
        queue.begin_line()

    def add() -> None:
        assert queue.add(queue.num_added + 1) == queue.num_added

    acts = dict(zip(MOVES, (add, send, arrive, acknowledge, break_line), strict=True))
    for move in moves:
        acts[move]()
        assert heard == list(range(1, len(heard) + 1))
        assert list(queue.messages) == list(range(queue.num_acknowledged + 1, queue.num_added + 1))
        assert queue.num_acknowledged <= min(len(heard), queue.num_sent)
    break_line()
    while queue.num_sent < queue.num_added:
        send()
    while line:
        arrive()
    acknowledge()
    assert heard == list(range(1, queue.num_added + 1))
    assert not queue.messages


def test_another_sender_begins_with_1() -> None:
    received = ReceivedNumbers()
    assert received.begin("a") and received.take(1) and not received.take(1)
    assert not received.begin("a") and received.num_received == 1
    assert received.begin("b") and received.take(1) and received.acknowledge(1)
