"""Orders about join tokens, said to the agent by a command of the same user on the same machine.

Each is said on a line of its own, which the agent ends after its answer.
"""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from swell.executors.local.agent.options import LOOPBACK
from swell.executors.local.launch import AgentError, find_agent
from swell.executors.local.protocol import (
    AddToken,
    AgentAddress,
    ListTokens,
    Refused,
    RevokeToken,
    TokenAdded,
    TokenAnswer,
    TokenOrder,
    TokensKnown,
)

ANSWER_S = 10.0


def add_token(state_dir: Path, name: str) -> TokenAdded:
    """A new token, whose text is nowhere else. Raises AgentError."""
    agent = _agent_of(state_dir)
    answer = _ask(agent, AddToken(token=agent.token, name=name))
    assert isinstance(answer, TokenAdded)  # noqa: S101 - of this agent's version
    return answer


def revoke_token(state_dir: Path, name: str) -> TokensKnown:
    """Returns once it opens nothing any longer. Raises AgentError."""
    agent = _agent_of(state_dir)
    return _known(_ask(agent, RevokeToken(token=agent.token, name=name)))


def list_tokens(state_dir: Path) -> TokensKnown:
    """All that were given out. Raises AgentError."""
    agent = _agent_of(state_dir)
    return _known(_ask(agent, ListTokens(token=agent.token)))


def _agent_of(state_dir: Path) -> AgentAddress:
    agent = find_agent(state_dir)
    if agent is None:
        raise AgentError(
            f"no agent of {state_dir} runs, and it keeps the join tokens: start it with "
            "`swell up --listen ADDRESS`"
        )
    return agent


def _known(answer: TokenAnswer) -> TokensKnown:
    assert isinstance(answer, TokensKnown)  # noqa: S101 - of this agent's version
    return answer


def _ask(agent: AgentAddress, order: TokenOrder) -> TokenAnswer:
    try:
        with socket.create_connection((LOOPBACK, agent.port), timeout=ANSWER_S) as line:
            line.sendall(msgspec.json.encode(order) + b"\n")
            text = line.makefile("rb").readline()
        if not text.endswith(b"\n"):
            raise ConnectionResetError("it closed the connection")
    except OSError as error:
        raise AgentError(f"the agent (pid {agent.pid}) does not answer: {error}") from error
    answer: TokenAnswer = msgspec.json.decode(text, type=TokenAnswer)
    if isinstance(answer, Refused):
        raise AgentError(answer.message)
    return answer
