"""`swell simulate`: policies on a log of jobs, and the files and tables of what came of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from swell.cli import output
from swell.cli.options import (
    Format,
    HelpAll,
    Strict,
    command_line,
    declared_options,
    described,
    seconds,
    with_groups,
)
from swell.model.errors import InvalidInput
from swell.model.option import told_options
from swell.settings import DEFAULT_POLICY
from swell.sim.conditions import CONDITION_OPTIONS, Conditions
from swell.sim.traces.fill import END_OPTIONS, FILL_OPTIONS, FillRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from swell.model.node import Islands
    from swell.settings import Settings
    from swell.sim.html_report import SimulatedLog
    from swell.sim.outcome import SimOutcome
    from swell.sim.pool import Pool
    from swell.sim.report import PolicyResult
    from swell.sim.traces.entry import Trace, Workload
    from swell.sim.world import Scenario


# ---------------------------------------------------------------- nodes

POOL_OPTIONS = told_options(
    """
pool (rare): PATH
    Borrow nodes while this log says that they are idle: rows of node,start_s,end_s[,devices] in any order,
    end_s -1 for a node that was still idle; may be gzipped (.gz).
pool_nodes (rare): FILE
    Only these nodes of the pool; one name a line.
pool_window (rare): FROM:UNTIL
    Only this part of the pool's log, in its seconds. The first job is submitted at FROM, and all nodes leave
    at UNTIL. Default: from its beginning, without an end.
pool_warning (rare): DURATION
    Say so long before a node of the pool leaves that it will: its jobs move in time. Default: there is no
    warning.
""",
    pool=Path,
    pool_nodes=Path,
)


class PoolOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which borrowed nodes there are, and when."""

    pool: Path | None = None
    pool_nodes: Path | None = None
    pool_window: str | None = None
    pool_warning: str | None = None

    @property
    def files(self) -> list[Path]:
        """Files that are read."""
        return [file for file in (self.pool, self.pool_nodes) if file is not None]

    def read(self) -> Pool | None:
        """Read the pool; None without `--pool`. Raises InvalidInput."""
        from swell.sim.pool import read_pool

        if self.pool is None:
            for name in ("pool_nodes", "pool_window", "pool_warning"):
                if getattr(self, name) is not None:
                    option = f"--{name.replace('_', '-')}"
                    raise InvalidInput(f"{option} is about a pool; give the log of idle nodes with --pool")
            return None
        pool = read_pool(self.pool)
        if self.pool_nodes is not None:
            pool = _of_nodes(pool, self.pool_nodes)
        if self.pool_window is not None:
            pool = _within(pool, self.pool_window)
        if self.pool_warning is not None:
            pool = replace(pool, warning_s=seconds("pool-warning", self.pool_warning))
        return pool


Borrowed = Annotated[PoolOptions, declared_options(PoolOptions, POOL_OPTIONS, PoolOptions)]


def _of_nodes(pool: Pool, file: Path) -> Pool:
    from swell.sim.pool import read_names

    names = frozenset(read_names(file))
    missing = names.difference(one.node for one in pool.intervals)
    if len(missing) == len(names):
        raise InvalidInput(f"--pool-nodes: {pool.source} has none of the nodes of {file}")
    if missing:
        output.warn(f"{len(missing)} of the {len(names)} nodes of {file} are never idle in {pool.source}")
    return pool.of_nodes(names)


def _within(pool: Pool, window: str) -> Pool:
    first, colon, last = window.partition(":")
    try:
        from_s, until_s = float(first), float(last)
    except ValueError:
        from_s, until_s = math.nan, math.nan
    if not (colon and 0.0 <= from_s < until_s < math.inf):
        raise InvalidInput(
            f"--pool-window is {window!r}; write FROM:UNTIL in seconds of the log, such as 72743:247631"
        )
    part = pool.within(from_s, until_s)
    if not part.intervals:
        raise InvalidInput(
            f"--pool-window: {pool.source} has no idle node between {from_s:g} s and {until_s:g} s"
        )
    return part


def nodes_of(cluster: str | None, pool: Pool | None) -> dict[str, Any]:
    """Fields of `Conditions` about nodes. Raises InvalidInput."""
    from swell.sim.kind_nodes import parse_kinds

    if cluster is None and pool is None:
        raise InvalidInput("there are no nodes; give --cluster NODESxDEVICES, --pool INTERVALS.csv, or both")
    text = "0x0" if cluster is None else cluster
    kinds = parse_kinds(text) if "=" in text else ()
    racks, nodes, devices, islands = _shape("0x0" if kinds else text)
    return {
        "nodes": racks * nodes,
        "devices_per_node": devices,
        "racks": racks,
        "islands": islands,
        "pool": pool,
        "kinds": kinds,
    }


def _shape(text: str) -> tuple[int, int, int, Islands]:
    """Racks, nodes of each, devices of each node, and their islands. Raises InvalidInput."""
    from swell.model.node import InvalidIslands, parse_islands

    numbers, has_islands, islands = text.partition("/")
    words = numbers.split("x")
    if len(words) > 3 or not all(word.isdecimal() for word in words):
        raise InvalidInput(
            f"--cluster is {text!r}; write NODESxDEVICES, such as 16x8, or RACKSxNODESxDEVICES, and islands "
            "behind it, such as 2x8x8/4/2"
        )
    racks, nodes, devices = map(int, ["1", "1", *words][-3:])
    if racks < 1:
        raise InvalidInput(f"--cluster is {text!r}; there is at least one rack")
    try:
        return racks, nodes, devices, parse_islands(islands, devices) if has_islands else ()
    except InvalidIslands as error:
        raise InvalidInput(f"--cluster is {text!r}: {error}") from error


# ---------------------------------------------------------------- files and tables
def print_results(results: list[PolicyResult]) -> None:
    """The truth, and the figures."""
    from swell.sim.report import conditions, result_tables

    title, *filled = conditions(results)
    print(title)
    for line in filled:
        print(f"  {line}")
    for table in result_tables(results):
        print()
        output.print_table([one.replace(" ", "\n", 1) for one in table.headings], table.rows, wrapping=None)


FILE_OPTIONS = told_options(
    """
json: OUT
    Write the figures as JSON to this file; - prints them.
jobs: OUT.csv
    Write one line for each job: outcome, devices, starts, pauses; the offer if refused.
html: REPORT.html
    Write a report that a browser opens: one file, with figures, charts and all jobs.
stories: FOLDER
    Write the reasons of all decisions, for `swell explain --run`.
""",
    **dict.fromkeys(("json", "jobs", "html", "stories"), Path),
)


class SimFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Output files, each named for its option; None: not asked for. Methods raise InvalidInput."""

    json: Path | None = None
    jobs: Path | None = None
    html: Path | None = None
    stories: Path | None = None

    @property
    def prints_json(self) -> bool:
        return str(self.json) == "-"

    def check_files(self, inputs: Iterable[Path]) -> None:
        """Before they are read."""
        json = None if self.prints_json else self.json
        output.check_files({"--json": json, "--jobs": self.jobs, "--html": self.html}, inputs)

    def write(self, log: SimulatedLog, command: str) -> None:
        """All but the stories of runs, which each run writes when it ends; `command`: what was typed."""
        from swell.sim.report import write_jobs

        if self.json is not None and not self.prints_json:
            with output.writing("--json", self.json):
                output.write_json(self.json, log.results)
        if self.jobs is not None:
            with output.writing("--jobs", self.jobs):
                write_jobs(self.jobs, ((policy, outcome.jobs) for policy, outcome in log.runs.items()))
        if self.html is not None:
            from swell.sim.html_report import report_text

            with output.writing("--html", self.html):
                self.html.write_text(report_text(log, command), encoding="utf-8")
            output.print_note(f"wrote {self.html}")


Files = Annotated[SimFiles, declared_options(SimFiles, FILE_OPTIONS, SimFiles)]
ConditionOptions = Annotated[dict[str, Any], declared_options(Conditions, CONDITION_OPTIONS)]
Filling = Annotated[FillRules, declared_options(FillRules, FILL_OPTIONS | END_OPTIONS, FillRules)]


def _read_scenario(context: typer.Context, file: Path | None) -> Path | None:
    """Have options that are not given be as in a file. Raises InvalidInput."""
    import yaml

    if file is None:
        return None
    try:
        said = yaml.load(file.read_text(), Loader=yaml.BaseLoader) or {}  # noqa: S506 - texts alone
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = " ".join(str(error).split())
        raise InvalidInput(f"--scenario {file} cannot be read: {why}") from error
    names = {one.opts[0].removeprefix("--"): one for one in context.command.params if one.opts[0][:2] == "--"}
    if not isinstance(said, dict) or (unknown := sorted(said.keys() - names)):
        what = f"{unknown[0]!r} is no option" if isinstance(said, dict) else "it is no mapping"
        raise InvalidInput(f"--scenario {file}: {what}; write OPTION: VALUE, without dashes, as `noise: 0.1`")
    texts = {  # `set: {min_hold_s: 30}` and `quota: {ana: 8}` are the texts that the command line has
        word: [f"{name}={text}" for name, text in value.items()] if isinstance(value, dict) else value
        for word, value in said.items()
    }
    context.default_map = {names[word].name or "": value for word, value in texts.items()}
    return file


ScenarioFile = Annotated[
    Path | None,
    typer.Option(
        "--scenario",
        metavar="FILE.yaml",
        is_eager=True,
        callback=_read_scenario,
        help="Take options that are not given from this file: OPTION: VALUE, without dashes.",
    ),
]


@with_groups
@described("""
trace (argument): TRACE
    Log of jobs; may be gzipped (.gz).
policy: NAME,...
    Policies to compare, one row of the table each.
profiles: FOLDER|NAME
    Folder of throughput tables MODEL.csv, or a built-in set.
cluster: [RACKSx]NODESxDEVICES[/ISLANDS]|KIND=NODESxDEVICES[*SPEED],...
    Equal nodes: 16x8 means 128 devices; 2x8x8/4/2 the same in two racks, where the devices of each node are
    in islands of 4 and, within these, of 2. Kinds of device: a100=4x8*2.5,v100=2x8, where jobs on a100 run at
    2.5 times the rates of the profiles; a job may have each kind, unless the trace names some in its column
    `kind`. Not needed with --pool.
quota: TENANT=DEVICES|SHARE
    Most devices that jobs of a tenant use together: ana=8, or ben=25% of those there are; may be repeated.
    Default: any number.
half_life: DURATION
    Time after which what a tenant has used counts half: jobs without a promise go by it, those of the tenant
    that has used least first. Default: 0, they do not.
weights: TENANT=NUMBER,...
    What tenants have used is divided by their weights: with 2, a tenant may use twice as much. Default: 1.
bookings (rare): FILE
    Book devices: rows of id,begin_s,end_s,num_devices[,node][,made_s], seconds since the first submission.
    Jobs whose `booking` the trace names run in it.
set_ (--set): NAME=VALUE
    Scheduler setting; may be repeated.
""")
def simulate(
    context: typer.Context,
    trace: Path,
    *,
    policy: str = DEFAULT_POLICY,
    profiles: str = "law",
    cluster: str | None = None,
    truth: ConditionOptions,
    quota: list[str] | None = None,
    half_life: str | None = None,
    weights: str = "",
    borrowed: Borrowed,
    filling: Filling,
    format: Format = None,
    strict: Strict = False,
    set_: list[str] | None = None,
    files: Files,
    bookings: Path | None = None,
    scenario_file: ScenarioFile = None,
    help_all: HelpAll = False,
) -> None:
    """Try policies on a log of jobs.

    The scheduler is the one that runs live. Two runs with the same options, files and version print the same
    results.
    """
    from swell.api.user_list import parse_quotas, parse_weights, refuse_unkept
    from swell.sim.html_report import SimulatedLog
    from swell.sim.pool import read_bookings

    if not trace.exists():  # the first thing to put right
        raise InvalidInput(f"cannot read {trace}: there is no such file")
    settings = _settings(set_ or [], half_life)
    quotas = {tenant: one for tenant, one in parse_quotas(quota or []).items() if one is not None}
    conditions = Conditions(
        **nodes_of(cluster, borrowed.read()),
        **truth,
        seed=filling.seed,
        quotas=quotas,
        weights=parse_weights(weights),
        bookings=[] if bookings is None else read_bookings(bookings),
    )
    names = policy_names(policy)
    refuse_unkept(names, conditions.quotas, "leave --quota out")
    files.check_files([trace, *borrowed.files, *([] if bookings is None else [bookings])])
    log = _read(trace, format, strict)
    workload, scenario = _set_up(log, profiles, filling, conditions, settings)
    output.check_folder("--stories", files.stories)
    _warn_undivided(names, conditions, settings)
    runs = {name: _run(name, scenario, settings, files) for name in names}
    results = _results(runs, workload, conditions, settings)
    (output.print_json if files.prints_json else print_results)(results)
    files.write(SimulatedLog(workload, results, runs), command_line(context))


def _results(
    runs: Mapping[str, SimOutcome], workload: Workload, conditions: Conditions, settings: Settings
) -> list[PolicyResult]:
    """What each policy did; bookings that it refused are told."""
    from swell.sim.conditions import truth_of
    from swell.sim.metrics import metrics_of
    from swell.sim.report import PolicyResult

    for name, outcome in runs.items():
        for booking_id, refusal in outcome.refused_bookings.items():
            output.warn(f"{name}: booking {booking_id} is refused: {refusal.text}")
    cluster, truth = conditions.shape, truth_of(workload, conditions, settings.changed)
    measured = {
        name: metrics_of(one, conditions.weights, settings["half_life_s"]) for name, one in runs.items()
    }
    return [
        PolicyResult(policy=name, cluster=cluster, truth=truth, metrics=found)
        for name, found in measured.items()
    ]


def _warn_undivided(names: Sequence[str], conditions: Conditions, settings: Settings) -> None:
    """A note and no error: jobs run, as they would first come, first served."""
    from swell.policies.registry import POLICIES

    if told := settings.without_effect(*names):
        output.warn(told)
    dividing = [name for name in names if POLICIES[name].domain.shares_cores]
    if dividing and conditions.cores is None:
        output.warn(
            f"{', '.join(dividing)}: to divide cores, jobs must share them, and without --cores each device "
            "has its own: shares change nothing, and jobs run as under fifo; give --cores NUMBER"
        )


def policy_names(text: str) -> list[str]:
    """Raises InvalidInput for one that there is not."""
    from swell.policies.registry import new_policy

    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidInput("--policy names no policy; write for example elasticflow,fifo")
    for name in names:
        new_policy(name)
    return names


def _settings(texts: list[str], half_life: str | None) -> Settings:
    from swell.cli.options import parsed
    from swell.model.quantities import parse_half_life
    from swell.settings import make_settings, parse_setting
    from swell.sim.conditions import SETTINGS

    known = {} if half_life is None else {"half_life_s": parsed("half-life", parse_half_life, half_life)}
    return make_settings(SETTINGS | known | dict(parse_setting(text) for text in texts))


def _read(trace: Path, format: str | None, strict: bool) -> Trace:
    from swell.sim.traces.entry import plural
    from swell.sim.traces.read import read

    log = read(trace, format, strict)
    for line in log.warnings:
        output.warn(f"{trace}: {line}")
    if len(log.skipped):
        output.warn(
            f"{trace}: {plural(len(log.skipped), 'line')} skipped; `swell trace info {trace}` says why"
        )
    return log


def _set_up(
    log: Trace, profiles: str, rules: FillRules, conditions: Conditions, settings: Settings
) -> tuple[Workload, Scenario]:
    from swell.sim.conditions import set_up
    from swell.sim.profiles.built_in import load
    from swell.sim.traces.fill import fill

    profile_set = load(profiles)
    workload = fill(log, profile_set, rules)
    for line in workload.left_out():
        output.warn(f"left out: {line}")
    scenario = set_up(workload, profile_set, conditions)
    timings = replace(
        scenario.timings,
        checkpoint_interval_s=settings["checkpoint_interval_s"] or None,
        notice_s=settings.leases.wait_s,
    )
    return workload, replace(scenario, timings=timings)


def _run(policy: str, scenario: Scenario, settings: Settings, files: SimFiles) -> SimOutcome:
    """Simulate one policy, and write its story."""
    from swell.scheduler import new_core
    from swell.sim.outcome import SegmentLog
    from swell.sim.simulate import EventLog
    from swell.sim.simulate import simulate as run

    core, log = new_core(policy, settings), SegmentLog() if files.jobs is not None else None
    tells_offers = files.jobs is not None or files.html is not None
    with output.progress_bar(policy, len(scenario.jobs)) as advance:
        if files.stories is None:
            return run(core, scenario, advance, with_offers=tells_offers, log=log)
        events = EventLog()
        outcome = run(core, scenario, advance, events.listen, log=log)
    from swell.store.journal import RunRecord

    with output.writing("--stories", files.stories):
        file = RunRecord(files.stories).write(policy, core.save(), events.jobs(core), events.stories)
    output.print_note(f"wrote {file}")
    return outcome
