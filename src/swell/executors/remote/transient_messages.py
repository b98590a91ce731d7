"""What the controller and a joined host say aside: messages of the moment, each of which may be lost."""

from __future__ import annotations

import msgspec

from swell.executors.leases.messages import FromController, LeaseAsked
from swell.executors.local.machine_facts import MachineFacts


class FactsMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    number: int  #: of the question


class FactsAsked(FactsMessage, frozen=True, kw_only=True):
    """The controller asks what the machine has."""


class FactsTold(FactsMessage, frozen=True, kw_only=True):
    """The answer, given as soon as the host has looked."""

    facts: MachineFacts


AsideToHost = FromController | FactsAsked
AsideToHead = LeaseAsked | FactsTold
