"""`swell simulate`: policies on a log of jobs, and the files and tables of what came of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swell.cli.options import HelpAll, command_line, declared_options, with_groups
from swell.cli.output import (
    check_files,
    check_folder,
    note,
    print_json,
    print_table,
    warn,
    write_json,
    writing,
)
from swell.cli.simulate_conditions import Cluster, Format, PoolOptions, Quotas, Strict, nodes_of
from swell.model.errors import InvalidInput
from swell.settings import DEFAULT_POLICY
from swell.sim.conditions import Conditions
from swell.sim.traces.fill import FillRules

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from swell.settings import Settings
    from swell.sim.html_report import SimulatedLog
    from swell.sim.outcome import SimOutcome
    from swell.sim.report import PolicyResult, Truth
    from swell.sim.traces.entry import Trace
    from swell.sim.traces.workload import Workload
    from swell.sim.world import Scenario


def print_results(results: list[PolicyResult]) -> None:
    """The truth, and the figures."""
    from swell.sim.report import bound_in_words, conditions, result_tables

    title, *filled = conditions(results)
    print(title)
    for line in filled:
        print(f"  {line}")
    for table in result_tables(results):
        print()
        print_table([one.replace(" ", "\n", 1) for one in table.headings], table.rows, wrapping=None)
    if (bound := bound_in_words(results[0].truth)) is not None:
        print(f"\n{bound}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimFiles:
    """Output files, each named for its option; None: not asked for. Methods raise InvalidInput."""

    json: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Write the figures as JSON to this file; - prints them."),
    ] = None
    jobs: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT.csv",
            help="Write one line for each job: outcome, devices, starts, pauses; the offer if refused.",
        ),
    ] = None
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="REPORT.html",
            help="Write a report that a browser opens: one file, with figures, charts and all jobs.",
        ),
    ] = None
    stories: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the reasons of all decisions, for `swell explain --run`."),
    ] = None

    @property
    def prints_json(self) -> bool:
        return str(self.json) == "-"

    def check_files(self, inputs: Iterable[Path]) -> None:
        """Before they are read."""
        json = None if self.prints_json else self.json
        check_files({"--json": json, "--jobs": self.jobs, "--html": self.html}, inputs)

    def write(self, log: SimulatedLog, command: str) -> None:
        """All but the stories of runs, which each run writes when it ends; `command`: what was typed."""
        from swell.sim.report import write_jobs

        if self.json is not None and not self.prints_json:
            with writing("--json", self.json):
                write_json(self.json, log.results)
        if self.jobs is not None:
            with writing("--jobs", self.jobs):
                write_jobs(self.jobs, ((policy, outcome.jobs) for policy, outcome in log.runs.items()))
        if self.html is not None:
            from swell.sim.html_report import report_text

            with writing("--html", self.html):
                self.html.write_text(report_text(log, command), encoding="utf-8")
            note(f"wrote {self.html}")


TraceFile = Annotated[Path, typer.Argument(metavar="TRACE", help="Log of jobs; may be gzipped (.gz).")]
Policy = Annotated[
    str, typer.Option(metavar="NAME,...", help="Policies to compare, one row of the table each.")
]
Profiles = Annotated[
    str, typer.Option(metavar="FOLDER|NAME", help="Folder of throughput tables MODEL.csv, or a built-in set.")
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Scheduler setting; may be repeated.")
]
ConditionOptions = Annotated[dict[str, Any], declared_options(Conditions)]
FillOptions = Annotated[dict[str, Any], declared_options(FillRules)]
Bound = Annotated[
    bool,
    typer.Option(
        "--bound",
        help="Also compute an upper bound: no schedule meets more "
        "deadlines, even if it knows all jobs in advance.",
    ),
]


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
    context.default_map = {names[word].name or "": _as_said(value) for word, value in said.items()}
    return file


def _as_said(value: Any) -> Any:
    """`set: {min_hold_s: 30}` and `quota: {ana: 8}` are the texts that the command line has."""
    return [f"{name}={text}" for name, text in value.items()] if isinstance(value, dict) else value


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
def simulate(
    context: typer.Context,
    trace: TraceFile,
    *,
    policy: Policy = DEFAULT_POLICY,
    profiles: Profiles = "law",
    cluster: Cluster = None,
    truth: ConditionOptions,
    quota: Quotas = None,
    borrowed: PoolOptions,
    filling: FillOptions,
    format: Format = None,
    strict: Strict = False,
    set_: Set = None,
    files: SimFiles,
    bound: Bound = False,
    scenario_file: ScenarioFile = None,
    help_all: HelpAll = False,
) -> None:
    """Try policies on a log of jobs.

    The scheduler is the one that runs live. Two runs with the same options, files and version print the same
    results.
    """
    from swell.api.user_list import parse_quotas, refuse_unkept
    from swell.sim.conditions import truth_of
    from swell.sim.html_report import SimulatedLog

    if not trace.exists():  # the first thing to put right
        raise InvalidInput(f"cannot read {trace}: there is no such file")
    settings = _settings(set_ or [])
    rules = FillRules(**filling)
    quotas = {tenant: one for tenant, one in parse_quotas(quota or []).items() if one is not None}
    conditions = Conditions(**nodes_of(cluster, borrowed.read()), **truth, seed=rules.seed, quotas=quotas)
    names = policy_names(policy)
    refuse_unkept(names, conditions.quotas, "leave --quota out")
    files.check_files([trace, *borrowed.files])
    log = _read(trace, format, strict)
    workload, scenario = _set_up(log, profiles, rules, conditions, settings)
    check_folder("--stories", files.stories)
    most = _bound(scenario, conditions) if bound else None
    _note_undivided(names, conditions, settings)
    simulated = truth_of(workload, conditions, settings.changed, most)
    runs = {name: _run(name, scenario, settings, files) for name in names}
    results = _results(runs, simulated, conditions)
    if files.prints_json:
        print_json(results)
    else:
        print_results(results)
    files.write(SimulatedLog(workload, scenario, results, runs), command_line(context))


def _note_undivided(names: Sequence[str], conditions: Conditions, settings: Settings) -> None:
    """A note and no error: jobs run, as they would first come, first served."""
    from swell.policies.registry import POLICIES

    if told := settings.without_effect(*names):
        warn(told)
    dividing = [name for name in names if POLICIES[name].domain.shares_cores]
    if dividing and conditions.cores is None:
        warn(
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


def _bound(scenario: Scenario, conditions: Conditions) -> float | None:
    from swell.sim.bound import offline_bound

    if conditions.kinds:
        raise InvalidInput(
            "--bound is for clusters of one kind; name no kinds in --cluster, or leave --bound out"
        )
    if conditions.pool is not None:
        raise InvalidInput("--bound is for clusters whose devices stay; leave --bound or --pool out")
    return offline_bound(scenario.jobs, conditions.num_devices)


def _settings(texts: list[str]) -> Settings:
    from swell.settings import make_settings, parse_setting
    from swell.sim.conditions import SETTINGS

    return make_settings(SETTINGS | dict(parse_setting(text) for text in texts))


def _read(trace: Path, format: str | None, strict: bool) -> Trace:
    from swell.sim.traces.read import read
    from swell.sim.traces.record import plural

    log = read(trace, format, strict)
    for line in log.warnings:
        warn(f"{trace}: {line}")
    if len(log.skipped):
        warn(f"{trace}: {plural(len(log.skipped), 'line')} skipped; `swell trace info {trace}` says why")
    return log


def _set_up(
    log: Trace, profiles: str, rules: FillRules, conditions: Conditions, settings: Settings
) -> tuple[Workload, Scenario]:
    from swell.sim.conditions import set_up
    from swell.sim.profiles.load import load
    from swell.sim.traces.fill import fill

    profile_set = load(profiles)
    workload = fill(log, profile_set, rules)
    for line in workload.left_out():
        warn(f"left out: {line}")
    scenario = set_up(workload, profile_set, conditions)
    timings = replace(
        scenario.timings,
        checkpoint_interval_s=settings.checkpoint_interval_s or None,
        notice_s=settings.leases.wait_s,
    )
    return workload, replace(scenario, timings=timings)


def _run(policy: str, scenario: Scenario, settings: Settings, files: SimFiles) -> SimOutcome:
    """Simulate one policy, and write its story."""
    from swell.cli.output import progress_bar
    from swell.scheduler import new_core
    from swell.sim.outcome import SegmentLog
    from swell.sim.simulate import EventLog
    from swell.sim.simulate import simulate as run

    core, log = new_core(policy, settings), SegmentLog() if files.jobs is not None else None
    tells_offers = files.jobs is not None or files.html is not None
    with progress_bar(policy, len(scenario.jobs)) as advance:
        if files.stories is None:
            return run(core, scenario, advance, with_offers=tells_offers, log=log)
        events = EventLog()
        outcome = run(core, scenario, advance, events.listen, log=log)
    from swell.store.journal import RunRecord

    with writing("--stories", files.stories):
        file = RunRecord(files.stories).write(policy, core.save(), events.jobs(core), events.stories)
    note(f"wrote {file}")
    return outcome


def _results(runs: Mapping[str, SimOutcome], truth: Truth, conditions: Conditions) -> list[PolicyResult]:
    from swell.sim.metrics import metrics_of
    from swell.sim.report import PolicyResult

    return [
        PolicyResult(policy=policy, cluster=conditions.shape, truth=truth, metrics=metrics_of(outcome))
        for policy, outcome in runs.items()
    ]
