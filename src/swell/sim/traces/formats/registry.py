"""All formats, the more particular ones first."""

from __future__ import annotations

from swell.sim.traces.errors import TraceError
from swell.sim.traces.format import Format, Head
from swell.sim.traces.formats.acme import ACME
from swell.sim.traces.formats.chronus import CHRONUS
from swell.sim.traces.formats.elasticflow import ELASTICFLOW
from swell.sim.traces.formats.gavel import GAVEL, SHOCKWAVE
from swell.sim.traces.formats.helios import HELIOS
from swell.sim.traces.formats.muri import MURI
from swell.sim.traces.formats.pai import PAI, PAI_TASKS
from swell.sim.traces.formats.philly import PHILLY, PHILLY_ATTEMPTS, PHILLY_STAMPED
from swell.sim.traces.formats.philly_json import PHILLY_JSON
from swell.sim.traces.formats.plain import PLAIN
from swell.sim.traces.formats.pollux import POLLUX
from swell.sim.traces.formats.sacct import SACCT
from swell.sim.traces.formats.swf import SWF
from swell.sim.traces.source import Source

FORMATS: tuple[Format, ...] = (
    PLAIN,
    ELASTICFLOW,
    CHRONUS,
    MURI,
    POLLUX,
    PHILLY,
    PHILLY_ATTEMPTS,
    PHILLY_STAMPED,
    HELIOS,
    ACME,
    PAI,
    PAI_TASKS,
    SACCT,
    GAVEL,
    SHOCKWAVE,
    SWF,
    PHILLY_JSON,
)
BY_NAME = {known.name: known for known in FORMATS}


def by_name(name: str) -> Format:
    """Raises TraceError that names those there are."""
    if name not in BY_NAME:
        raise TraceError(f"there is no format {name!r}; choose one of {', '.join(BY_NAME)}")
    return BY_NAME[name]


def detect(source: Source, head: Head) -> Format:
    """The format the file looks like.

    Raises:
        TraceError: it is empty, or looks like none.
    """
    if not head.text.strip():
        raise TraceError(f"{source.path} is empty; a trace has a line for each job")
    for known in FORMATS:
        if known.is_like(head):
            return known
    first = head.lines[0][:100] if head.lines else head.text[:100]
    raise TraceError(
        f"{source.path} is no trace of a known format; it begins with {first!r}. "
        f"Name its format with --format ({', '.join(BY_NAME)}), or give it the header of a plain one: "
        "submit_s,id,num_devices,duration_s"
    )
