"""What a change of a gang costs in a simulated world: models to choose from.

The amounts of `changed` are those of ElasticFlow's simulator: 2 s, or 7 s on clusters of 256 devices and
more, and 2 (log2 n + 1) s on top of it for n devices that the job has not had together before. There all jobs
pay whenever anything changes; here the job that changes does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from swell.model.quantities import as_number

LARGE_CLUSTER_DEVICES = 256
SMALL_BASE_S, LARGE_BASE_S = 2.0, 7.0
#: Of a text that names the delay of growths.
DELAY = "delay:"
#: A day. The head looks at every change again and again while it lasts.
MOST_S = 86_400.0


@dataclass(frozen=True, slots=True)
class GangChange:
    """One change of one gang. Launch: `before` is 0."""

    before: int  #: devices
    after: int
    is_known_set: bool  #: the job has trained on exactly these devices before
    state_bytes: float  #: of the training state, which each worker that joins gets
    start_s: float  #: from the fork of one worker to its being ready, by its profile
    is_restart: bool = False  #: every process stops and starts


@dataclass(frozen=True, slots=True)
class Cost:
    delay_s: float  #: until the change happens; a running gang trains on at its old size
    pause_s: float  #: from then on nothing is trained


#: What the gang that changes pays.
ChangeCost = Callable[[GangChange], Cost]


def paid_at_once(pause_s: Callable[[GangChange], float]) -> ChangeCost:
    """A launch is delayed for so long, any other change pauses the gang."""
    return lambda change: Cost(*((pause_s(change), 0.0) if change.before == 0 else (0.0, pause_s(change))))


def published(num_devices: int) -> ChangeCost:
    """The published amounts, in a cluster of so many devices, paid by gangs that change."""
    base_s = LARGE_BASE_S if num_devices >= LARGE_CLUSTER_DEVICES else SMALL_BASE_S

    def pause_s(change: GangChange) -> float:
        return base_s + (0.0 if change.is_known_set else 2.0 * (math.log2(max(change.after, 1)) + 1.0))

    return paid_at_once(pause_s)


def constant(pause_s: float, no_growth_s: float | None = None) -> ChangeCost:
    """The same for every change, or another time for those that are no growth; 0: changes are free."""
    other_s = pause_s if no_growth_s is None else no_growth_s
    return paid_at_once(lambda change: pause_s if change.after > change.before else other_s)


def delayed_growth(delay_s: float) -> ChangeCost:
    """A start or a growth takes place after a delay, until which the job goes on as it is; no job pauses.

    References: Hu et al., section 5.5: "it will stay on its current nodes for 15 seconds before executing the
        new decision".
    """
    return lambda change: Cost(delay_s if change.after > change.before else 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """What an installation measured: joiners start while the others train, then all pause shortly."""

    pause_s: float = 0.05  #: of a resize, beyond copying the state
    state_bytes_per_s: float = 1e9
    crowding_share: float = 0.25  #: by how much each further worker that starts beside the first delays it
    order_s: float = 0.0  #: of joiners, beside what the script needs until it is ready to join
    unprofiled_start_s: float = 0.0  #: of a gang of which no profile says
    restart_s: float = 5.0  #: of a resize where every process stops and starts

    def __call__(self, change: GangChange) -> Cost:
        num_joiners = max(change.after - change.before, 0)
        start_s = self._start_s(change.start_s, num_joiners) if num_joiners else 0.0
        if change.before == 0:
            return Cost(start_s, 0.0)
        if change.is_restart:
            return Cost(0.0, self.restart_s)
        copy_s = change.state_bytes / self.state_bytes_per_s if num_joiners else 0.0
        return Cost(start_s, self.pause_s + copy_s)

    def _start_s(self, alone_s: float, num_joiners: int) -> float:
        if alone_s <= 0.0:
            return self.unprofiled_start_s
        return self.order_s + alone_s * (1.0 + self.crowding_share * (num_joiners - 1))


def change_cost(text: str, num_devices: int) -> ChangeCost:
    """`changed`, `profile`, `none`, `delay:SECONDS` or a number of seconds. Raises ValueError."""
    named: dict[str, Callable[[], ChangeCost]] = {
        "changed": lambda: published(num_devices),
        "profile": MeasuredCost,
        "none": lambda: constant(0.0),
    }
    if text in named:
        return named[text]()
    make = delayed_growth if text.startswith(DELAY) else constant
    time_s = as_number(text.removeprefix(DELAY))
    if not 0.0 <= time_s <= MOST_S:
        raise ValueError(
            f"{text!r} is no resize cost; give one of {', '.join(named)}, {DELAY}SECONDS "
            f"or a number of seconds from 0 to {MOST_S:g}"
        )
    return make(time_s)
