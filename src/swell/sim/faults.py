"""Nodes that fail and come back, and trial runs, launches, resizes and suspends that fail at given rates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from swell.model.errors import InvalidInput
from swell.model.event import AnyEvent, NodeJoined, NodeLost
from swell.model.node import Node


def node_failures(
    nodes: Sequence[Node], mean_up_s: float, mean_down_s: float, until_s: float, seed: int
) -> list[AnyEvent]:
    """Each node is up and down in turns of exponential length, until every one that failed is back.

    Args:
        until_s: no node fails after it.

    Raises:
        ValueError: a mean is not > 0.
    """
    if mean_up_s <= 0.0 or mean_down_s <= 0.0:
        raise ValueError(
            f"nodes are up for {mean_up_s:g} s and down for {mean_down_s:g} s on average; both must be > 0"
        )
    found: list[AnyEvent] = []
    for index, node in enumerate(nodes):
        generator = np.random.default_rng([seed, index])
        at_s = float(generator.exponential(mean_up_s))
        while at_s < until_s:
            back_s = at_s + float(generator.exponential(mean_down_s))
            found += [NodeLost(at_s=at_s, name=node.name), NodeJoined(at_s=back_s, node=node)]
            at_s = back_s + float(generator.exponential(mean_up_s))
    return sorted(found, key=lambda event: event.at_s)


MESSAGE = "failed as --fault-rates asks"


class FaultRates(msgspec.Struct, frozen=True, kw_only=True):
    """Shares within 0 and 1. Raises InvalidInput."""

    trial: float = 0.0  #: of trial runs, that are lost through no fault of the script
    launch: float = 0.0  #: of launches, whose gang is lost before it trains
    resize: float = 0.0  #: of resizes of gangs that train, that leave them at their former size
    suspend: float = 0.0  #: of suspends, that cannot write their checkpoint
    loss: float = 0.0  #: of resizes and suspends, that lose a worker while they are under way
    warning: float = 0.0  #: of starts, that are followed by a warning to the job's owner

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            rate = getattr(self, name)
            if not 0.0 <= rate <= 1.0:  # false for NaN too
                raise InvalidInput(f"{name} is {rate}; it must be within 0 and 1")


NO_FAULTS = FaultRates()


def parse_fault_rates(text: str) -> FaultRates:
    """`resize=0.1,trial=0.05`. Raises InvalidInput."""
    rates: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, _, value = part.partition("=")
        if name not in FaultRates.__struct_fields__:
            known = ", ".join(FaultRates.__struct_fields__)
            raise InvalidInput(f"{name!r} is not known; write NAME=SHARE with {known}")
        try:
            rates[name] = float(value)
        except ValueError:
            raise InvalidInput(f"{part!r} has no number; write {name}=0.1") from None
    return FaultRates(**rates)


@dataclass(frozen=True, slots=True)
class FaultSource:
    """Which of the things that could fail do. Each is drawn by itself, whatever came before it."""

    rates: FaultRates = NO_FAULTS
    seed: int = 0

    def is_struck(self, kind: str, job_id: str, number: int) -> bool:
        """Args:
        kind: a field of `FaultRates`.
        number: generation of the change, or attempt of the trial run.
        """
        rate: float = getattr(self.rates, kind)
        return rate > 0.0 and random.Random(f"{self.seed} {kind} {job_id} {number}").random() < rate


NOTHING_FAILS = FaultSource()
