"""What the head and the owner of a gang's job have been told of its training, and what waits to be told."""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.executors.gang.divergence import Divergence
from swell.executors.gang.drift import DriftCount
from swell.executors.gang.progress import Marks, Pacer
from swell.executors.gang.reductions import Reductions
from swell.wire import messages
from swell.wire.metric_names import MetricNames


@dataclass(slots=True)
class Reporting:
    """It is lost with the controller: workers tell again what they have told last."""

    divergence: Divergence
    pacer: Pacer = field(default_factory=Pacer)
    marks: Marks = field(default_factory=Marks)
    names: MetricNames = field(default_factory=MetricNames)
    reductions: Reductions = field(default_factory=Reductions)
    drift: DriftCount = field(default_factory=DriftCount)
    final: messages.Finished | None = None  #: the last word of a job that met its end condition
