"""Shanghai AI Lab's Acme clusters, Seren and Kalos: Helios' table with a type of work instead of a VC."""

from __future__ import annotations

from swell.sim.traces.cells import text
from swell.sim.traces.entry import TraceJob
from swell.sim.traces.formats import helios
from swell.sim.traces.record import LineRemarks
from swell.sim.traces.table import Row, TableFormat, needed_column


def build(row: Row, remarks: LineRemarks) -> TraceJob:
    row.pop("type")  # MetricValue, Pretrain ...: no model
    return helios.build(row, remarks)


ACME = TableFormat(
    name="acme",
    title="Acme",
    columns=helios.COLUMNS | {"type": needed_column("type", parse=text)},
    build=build,
)
