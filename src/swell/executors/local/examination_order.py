"""Has the agent ask every joined host what its machine has; said by a command of the same user."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from swell.executors.local.launch import find_agent
from swell.executors.local.orders import answers
from swell.executors.local.protocol import ExaminationMessage, ExamineHosts, HostExamined

#: The agent waits for no host as long as this.
ANSWER_S = 60.0

_decode: Callable[[bytes], ExaminationMessage] = msgspec.json.Decoder(ExaminationMessage).decode


def examine_hosts(state_dir: Path) -> Iterator[HostExamined]:
    """Each host as soon as it has answered, or is silent; none if no agent runs at which hosts join.

    Raises:
        AgentError: the agent does not answer.
    """
    agent = find_agent(state_dir)
    if agent is None or not agent.hosts:
        return
    for text in answers(agent, ExamineHosts(token=agent.token), ANSWER_S):
        message = _decode(text)
        if not isinstance(message, HostExamined):
            return
        yield message
