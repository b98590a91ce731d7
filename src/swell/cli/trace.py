"""`swell trace`: what a log of jobs holds, and other logs made of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import Format, HelpAll, Json, Strict, declared_options, described, seconds, with_groups
from swell.cli.output import check_files, print_json, print_table, warn
from swell.model.errors import InvalidInput
from swell.model.quantities import span
from swell.sim.traces.entry import plural
from swell.sim.traces.fill import FILL_OPTIONS, FillRules
from swell.sim.traces.read import TraceStatistics

if TYPE_CHECKING:
    from swell.sim.traces.entry import Trace
    from swell.sim.traces.generate import Arrivals, Demand

#: Kinds shown of devices and models; what there is beyond is counted.
NUM_SHOWN = 8
#: Clocks between these stand at seconds since 1970: 2001 to 5138.
CALENDAR = (1e9, 1e11)


def rows(found: TraceStatistics) -> Iterator[tuple[str, str]]:
    """(what, in words); nothing for what no job tells."""
    yield "file", found.source
    yield "format", f"{found.format} ({found.title})"
    yield "jobs", _jobs(found)
    if found.devices:
        yield "devices", _counted({str(number): jobs for number, jobs in found.devices.items()})
    if found.duration_s:
        quantiles = ", ".join(f"{name} {span(value)}" for name, value in found.duration_s.items())
        yield "duration", quantiles
    if found.device_seconds:
        yield "work", _work(found)
    if found.models:
        yield "models", _counted(found.models)
    yield "deadlines", _deadlines(found)
    yield "steps", f"known of {plural(found.with_steps, 'job')}" if found.with_steps else "none"
    if found.status:
        yield "ended", _counted(found.status)
    if found.users or found.tenants:
        yield "from", f"{plural(found.users, 'user')}, {plural(found.tenants, 'tenant')}"
    yield from (("note", note) for note in found.notes)


def skipped_rows(found: TraceStatistics) -> Iterator[tuple[str, str, str]]:
    """(number, reason, example) for each reason for which lines were skipped."""
    for lines in found.skipped:
        shown = ", ".join(f"line {entry.line}" for entry in lines.examples[:1])
        detail = lines.examples[0].why.partition(":")[2].strip()
        kind = "malformed: " if lines.is_malformed else ""
        yield f"{lines.count:,}", f"{kind}{lines.why}", f"{shown}: {detail}" if detail else shown


def _jobs(found: TraceStatistics) -> str:
    if found.epoch_s is None or found.span_s is None:
        return "none"
    return f"{found.jobs:,}, the first at {_start_text(found.epoch_s)}, the last {span(found.span_s)} later"


def _start_text(epoch_s: float) -> str:
    if CALENDAR[0] < epoch_s < CALENDAR[1]:
        return f"{datetime.fromtimestamp(epoch_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    return f"{epoch_s:,.0f} s"


def _counted(counts: dict[str, int]) -> str:
    """`1: 96,652, 2: 2,522, 3 more`, in the order given."""
    parts = [f"{name}: {count:,}" for name, count in list(counts.items())[:NUM_SHOWN]]
    if len(counts) > NUM_SHOWN:
        parts.append(f"{len(counts) - NUM_SHOWN:,} more")
    return ", ".join(parts)


def _work(found: TraceStatistics) -> str:
    hours = f"{found.device_seconds / HOUR_S:,.0f} device-hours"
    if found.mean_devices is None:
        return hours
    return f"{hours}, {found.mean_devices:,.1f} devices busy over the time of arrivals"


def _deadlines(found: TraceStatistics) -> str:
    parts = [plural(found.with_deadline, "job") if found.with_deadline else "none"]
    if found.deadline_share:
        low, middle, high = (found.deadline_share[name] for name in ("p10", "p50", "p90"))
        parts.append(f"after {low:.2f}, {middle:.2f}, {high:.2f} durations (p10, p50, p90)")
    parts += [
        f"{count:,} {name}"
        for name, count in (("soft", found.soft), ("best-effort", found.best_effort))
        if count
    ]
    return ", ".join(parts)


HOUR_S = 3600.0

File = Annotated[Path, typer.Argument(metavar="FILE", help="Trace; may be gzipped (.gz).")]
Out = Annotated[Path, typer.Argument(metavar="OUT", help="File to write; gzipped if its name ends in .gz.")]

#: Of a log whose jobs may name models.
Filling = Annotated[FillRules, declared_options(FillRules, FILL_OPTIONS, FillRules)]

app = typer.Typer(name="trace", add_completion=False, rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def show_help(context: typer.Context) -> None:
    """Inspect, convert or generate a log of jobs."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def info(
    file: File, format: Format = None, strict: Strict = False, json: Json = False, help_all: HelpAll = False
) -> None:
    """Summarise a trace: its format, jobs, sizes, durations, deadlines and skipped lines."""
    from swell.sim.traces.read import survey

    found = survey(file, format, strict)
    if json:
        print_json(found)
        return

    print_table(("", ""), rows(found))
    if found.skipped:
        print()
        print_table(("SKIPPED", "WHY", "FOR EXAMPLE"), skipped_rows(found))


@app.command()
@with_groups
@described("""
profiles: FOLDER|NAME
    Throughput profiles: a folder of tables MODEL.csv, or hu, law, law:EXPONENT, saxena. Missing fields are
    filled from them.
""")
def convert(
    file: File,
    out: Out,
    *,
    profiles: str | None = None,
    filling: Filling,
    format: Format = None,
    strict: Strict = False,
    help_all: HelpAll = False,
) -> None:
    """Write a trace as a plain table; with --profiles, also fill in missing fields.

    Prints the rules by which fields were filled, and the jobs that were left out because they could not be.
    """
    from swell.sim.traces.read import read

    check_files({"OUT": out}, [])
    log = read(file, format, strict)
    for line in log.warnings:
        warn(f"{file}: {line}")
    jobs, lines = plural(len(log.jobs), "job"), plural(len(log.skipped), "line")
    print(f"{file}: {log.format}, {jobs}, {lines} skipped")
    _write(log, out, profiles, filling)


@app.command()
@described("""
jobs: N
    Number of jobs.
arrivals: LAW
    Arrival process: poisson, bursty (a high rate and a quarter of it in turn) or diurnal.
per_hour: JOBS
    Mean arrival rate; for bursty arrivals the high rate.
phase: DURATION
    Length of each phase of bursty arrivals, which begin with the high rate.
devices: N:WEIGHT,...
    Weights of the numbers of devices that jobs request. Default: 1:70,2:10,4:8,8:8,16:4.
median: DURATION
    Median duration of a job.
spread: S
    Standard deviation of log(duration); 0: all jobs take equally long.
seed: N
    Random seed.
""")
def generate(
    out: Out,
    *,
    jobs: int = 1000,
    arrivals: str = "poisson",
    per_hour: float = 60.0,
    phase: str = "1h",
    devices: str | None = None,
    median: str = "1h",
    spread: float = 1.5,
    seed: int = 0,
) -> None:
    """Generate a trace: Poisson, bursty or diurnal arrivals, devices by weight, log-normal durations.

    Models, steps and deadlines are filled in where the trace is simulated or converted. The same options
    write the same file.
    """
    from swell.sim.traces.generate import generate as make

    check_files({"OUT": out}, [])
    law = _arrivals(arrivals, per_hour, phase)
    _write(make(law, jobs, _demand(devices, median, spread), seed), out)


def _write(trace: Trace, out: Path, profiles: str | None = None, rules: FillRules | None = None) -> None:
    """Write the trace as it is, or filled from `profiles`, and print what was done."""
    from swell.sim.profiles.built_in import load
    from swell.sim.traces.fill import fill
    from swell.sim.traces.formats.plain import write_plain

    filled = None if profiles is None else fill(trace, load(profiles), rules)
    jobs = trace.jobs if filled is None else filled.jobs
    write_plain(out, jobs, trace.epoch_s)
    if filled is not None:
        for line in (*filled.filled, *(f"left out: {why}" for why in filled.left_out())):
            print(f"  {line}")
    print(f"{out}: {plural(len(jobs), 'job')}")


def _arrivals(law: str, per_hour: float, phase: str) -> Arrivals:
    from swell.sim.traces.generate import bursty, diurnal, poisson

    per_s = per_hour / HOUR_S
    if law == "poisson":
        return poisson(per_s)
    if law == "bursty":
        return bursty(high_per_s=per_s, low_per_s=per_s / 4, phase_s=seconds("phase", phase))
    if law == "diurnal":
        return diurnal(mean_per_s=per_s)
    raise InvalidInput(f"--arrivals is {law!r}; choose one of poisson, bursty, diurnal")


def _demand(devices: str | None, median: str, spread: float) -> Demand:
    from swell.sim.traces.generate import DEVICE_WEIGHTS, Demand

    weights = DEVICE_WEIGHTS if devices is None else _weights(devices)
    return Demand(device_weights=weights, median_s=seconds("median", median), spread=spread)


def _weights(text: str) -> dict[int, float]:
    pairs = [part.partition(":") for part in text.split(",")]
    try:
        return {int(number): float(weight or 1.0) for number, _, weight in pairs}
    except ValueError:
        raise InvalidInput(
            f"--devices is {text!r}; write NUMBER:WEIGHT,..., such as 1:70,2:20,8:10"
        ) from None
