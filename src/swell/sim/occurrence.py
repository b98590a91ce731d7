"""What is to happen in a simulated world: events for the head, and turns that the truth takes."""

from __future__ import annotations

from dataclasses import dataclass

from swell.model.event import AnyEvent
from swell.model.node import Node


@dataclass(frozen=True, slots=True)
class EventArrives:
    """The head hears of this event."""

    event: AnyEvent


@dataclass(frozen=True, slots=True)
class Starts:
    """Every worker of a launched gang is up."""

    job_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Changes:
    """The joiners of a resize are up: the gang changes."""

    job_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class LosesWorker:
    """The worker of highest rank dies, unless another change of the gang has been asked for since."""

    job_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Resumes:
    """A pause is over, unless the gang's `mark` has moved on."""

    job_id: str
    mark: int


@dataclass(frozen=True, slots=True)
class Reports:
    """Progress is told, unless the gang has changed since."""

    job_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Leaves:
    """The checkpoint of a suspended gang is written."""

    job_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class Ends:
    """The last step is done, unless the gang's `mark` has moved on."""

    job_id: str
    mark: int


@dataclass(frozen=True, slots=True)
class Turns:
    """An epoch ends after which steps are worth something else, unless the gang's `mark` has moved on."""

    job_id: str
    mark: int


@dataclass(frozen=True, slots=True)
class Contends:
    """A pause may be over after which the gang needs cores of its nodes again."""

    job_id: str


@dataclass(frozen=True, slots=True)
class TrialEnds:
    """A trial run is over, unless it was called off."""

    job_id: str


@dataclass(frozen=True, slots=True)
class NodeFails:
    name: str


@dataclass(frozen=True, slots=True)
class NodeMissed:
    """That it has failed is heard, unless it was before."""

    name: str
    failed_s: float


@dataclass(frozen=True, slots=True)
class NodeReturns:
    node: Node


Occurrence = (
    EventArrives
    | Starts
    | Changes
    | LosesWorker
    | Resumes
    | Reports
    | Leaves
    | Ends
    | Turns
    | Contends
    | TrialEnds
    | NodeFails
    | NodeMissed
    | NodeReturns
)
