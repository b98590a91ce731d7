"""Orders to the agent by a command of the same user on the same machine, on a line of their own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec

from swell.executors.local.launch import AgentError, find_agent
from swell.executors.local.protocol import AgentAddress
from swell.wire.lines import LineBuffer

LOOPBACK = "127.0.0.1"
ANSWER_S = 10.0


def agent_of(state_dir: Path) -> AgentAddress:
    """Raises AgentError: none runs."""
    agent = find_agent(state_dir)
    if agent is None:
        raise AgentError(
            f"no agent of {state_dir} runs, and it keeps the join tokens: start it with "
            "`swell up --listen ADDRESS`"
        )
    return agent


def answers(agent: AgentAddress, order: msgspec.Struct, within_s: float = ANSWER_S) -> Iterator[bytes]:
    """Lines as they come, for as long as they are asked for.

    Args:
        within_s: for each line.

    Raises:
        AgentError: the agent does not answer, or ends the line.
    """
    received = LineBuffer()
    try:
        with socket.create_connection((LOOPBACK, agent.port), timeout=within_s) as line:
            line.sendall(msgspec.json.encode(order) + b"\n")
            while True:
                while (text := received.next_line()) is None:
                    if not (chunk := line.recv(65536)):
                        raise ConnectionResetError("it closed the connection")
                    received.feed(chunk)
                yield text
    except OSError as error:
        raise AgentError(f"the agent (pid {agent.pid}) does not answer: {error}") from error
