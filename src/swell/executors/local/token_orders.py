"""Orders about join tokens, said to the agent by a command of the same user on the same machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from swell.executors.local.launch import AgentError
from swell.executors.local.orders import agent_of, answers
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

_decode: Callable[[bytes], TokenAnswer] = msgspec.json.Decoder(TokenAnswer).decode


def add_token(state_dir: Path, name: str) -> TokenAdded:
    """A new token, whose text is nowhere else. Raises AgentError."""
    agent = agent_of(state_dir)
    answer = _ask(agent, AddToken(token=agent.token, name=name))
    assert isinstance(answer, TokenAdded)  # noqa: S101 - of this agent's version
    return answer


def revoke_token(state_dir: Path, name: str) -> TokensKnown:
    """Returns once it opens nothing any longer. Raises AgentError."""
    agent = agent_of(state_dir)
    return _known(_ask(agent, RevokeToken(token=agent.token, name=name)))


def list_tokens(state_dir: Path) -> TokensKnown:
    """All that were given out. Raises AgentError."""
    agent = agent_of(state_dir)
    return _known(_ask(agent, ListTokens(token=agent.token)))


def _known(answer: TokenAnswer) -> TokensKnown:
    assert isinstance(answer, TokensKnown)  # noqa: S101 - of this agent's version
    return answer


def _ask(agent: AgentAddress, order: TokenOrder) -> TokenAnswer:
    answer = _decode(next(answers(agent, order)))
    if isinstance(answer, Refused):
        raise AgentError(answer.message)
    return answer
