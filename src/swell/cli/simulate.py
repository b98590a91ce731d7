"""`swell simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from swell.api.durations import parse_duration
from swell.cli import core_options
from swell.cli import fill_options as fill
from swell.cli.command_line import command_line
from swell.cli.destinations import check_files, check_folder, writing
from swell.cli.output import note, print_json, warn, write_json
from swell.cli.pool_options import read_pool_options
from swell.cli.simulate_table import print_results
from swell.model.errors import InvalidInput
from swell.model.job import AfterRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from swell.model.quota import Quota
    from swell.settings import Settings
    from swell.sim.epoch_ends import EpochEnds
    from swell.sim.outcome import SimOutcome
    from swell.sim.pool import Pool
    from swell.sim.report import PolicyResult, Truth
    from swell.sim.report_data import SimulatedLog
    from swell.sim.shared_cores import CoreDivision
    from swell.sim.simulate import Scenario
    from swell.sim.stage import Conditions
    from swell.sim.traces.log import Log
    from swell.sim.traces.rules import Rules
    from swell.sim.traces.workload import Workload


def simulate(
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="Log of jobs; may be gzipped (.gz).")],
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NODESxDEVICES",
            help="Equal nodes: 16x8 means 128 devices. Not needed with --pool.",
            show_default=False,
        ),
    ] = None,
    policy: Annotated[
        str, typer.Option(metavar="NAME,...", help="Policies to compare, one row of the table each.")
    ] = "elasticflow",
    profiles: Annotated[
        str,
        typer.Option(metavar="FOLDER|NAME", help="Folder of throughput tables MODEL.csv, or a built-in set."),
    ] = "law",
    resize_cost: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="Cost of resizes: changed (resized jobs pay ElasticFlow's amounts), "
            "everyone (all jobs pay at every event, as in its simulator), profile (as "
            "measured live), delay:SECONDS (of starts and growths), none, or a number of seconds.",
        ),
    ] = "changed",
    noise: Annotated[
        float,
        typer.Option(metavar="S", help="True rates differ from the profile by a factor exp(S x normal)."),
    ] = 0.0,
    profile_error: Annotated[
        float,
        typer.Option(
            metavar="S",
            help="Rates measured in trial runs differ from the true ones by a factor exp(S x normal).",
        ),
    ] = 0.0,
    between_steps: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION/STEPS",
            help="Each job makes no step for so long after every so many, as one that evaluates: 2s/500. "
            "Default: never.",
            show_default=False,
        ),
    ] = None,
    cores: core_options.Cores = None,
    cpu_shares: core_options.CpuSharesOption = "weight",
    interference: core_options.Interference = 0.0,
    report_every: core_options.ReportEvery = None,
    node_mtbf: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Mean time between failures of a node. Default: nodes never fail."
        ),
    ] = None,
    node_mttr: Annotated[
        str, typer.Option(metavar="DURATION", help="Mean time until a failed node is back.")
    ] = "1h",
    pool: Annotated[
        Path | None,
        typer.Option(
            metavar="INTERVALS.csv",
            help="Borrow nodes while this log says that they are idle: rows of node,start_s,end_s[,devices] "
            "in any order, end_s -1 for a node that was still idle; may be gzipped (.gz).",
            show_default=False,
        ),
    ] = None,
    pool_nodes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Only these nodes of the pool; one name a line.", show_default=False
        ),
    ] = None,
    pool_window: Annotated[
        str | None,
        typer.Option(
            metavar="FROM:UNTIL",
            help="Only this part of the pool's log, in its seconds. The first job is submitted at FROM, "
            "and all nodes leave at UNTIL. Default: from its beginning, without an end.",
            show_default=False,
        ),
    ] = None,
    pool_warning: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Say so long before a node of the pool leaves that it will: its jobs move in time. "
            "Default: there is no warning.",
            show_default=False,
        ),
    ] = None,
    fault_rates: Annotated[
        str,
        typer.Option(
            metavar="WHAT=SHARE,...",
            help="Shares of trial runs (trial), launches (launch), resizes (resize) and suspensions "
            "(suspend) that fail, of resizes and suspensions that lose a worker (loss), and of starts that "
            "give a warning (warning).",
        ),
    ] = "",
    buggy: Annotated[float, typer.Option(metavar="SHARE", help="Share of jobs that crash early.")] = 0.0,
    cancelled: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of jobs that their users cancel.")
    ] = 0.0,
    seed: fill.FillSeed = 0,
    deadlines: fill.Deadlines = "missing",
    tightness: fill.Tightness = "0.5:1.5",
    best_effort: fill.BestEffort = 0.0,
    soft: fill.Soft = 0.0,
    unknown: fill.Unknown = "refuse",
    draw_losses: fill.DrawLosses = False,
    refused: Annotated[
        AfterRefusal,
        typer.Option(
            help="What becomes of strict jobs that are refused: they end, or run as soft jobs with their "
            "deadlines, as with `swell submit --or-soft`."
        ),
    ] = AfterRefusal.END,
    format: fill.Format = None,
    strict: fill.Strict = False,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT=DEVICES|SHARE",
            help="Most devices that jobs of a tenant hold together: ana=8, or ben=25% of those there are; "
            "may be repeated. Default: any number.",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Scheduler setting; may be repeated."),
    ] = None,
    json: Annotated[
        Path | None,
        typer.Option("--json", metavar="OUT", help="Write the figures as JSON to this file; - prints them."),
    ] = None,
    jobs: Annotated[
        Path | None,
        typer.Option(
            "--jobs",
            metavar="OUT.csv",
            help="Write one line for each job: outcome, devices, starts, pauses; the offer if refused.",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FOLDER", help="Write pictures to this folder.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="REPORT.html",
            help="Write a report that a browser opens: one file, with figures, charts and all jobs.",
        ),
    ] = None,
    stories: Annotated[
        Path | None,
        typer.Option(
            "--stories",
            metavar="FOLDER",
            help="Write the reasons of all decisions, for `swell explain --run`, and all that gangs did, for "
            "`swell audit`.",
        ),
    ] = None,
    bound: Annotated[
        bool,
        typer.Option(
            "--bound",
            help="Also compute an upper bound: no schedule meets more "
            "deadlines, even if it knows all jobs in advance.",
        ),
    ] = False,
    timing: Annotated[
        bool,
        typer.Option(
            "--timing", help="Also show the time that decisions took, which differs from run to run."
        ),
    ] = False,
) -> None:
    """Try policies on a log of jobs.

    The scheduler is the one that runs live. Two runs with the same options, files and version print the same
    results.
    """
    from swell.api.quotas import refuse_unkept
    from swell.sim.report_data import SimulatedLog
    from swell.sim.stage import truth_of

    settings = _settings(set_ or [])
    rules = fill.rules_of(seed, deadlines, tightness, best_effort, soft, unknown, draw_losses)
    rules = msgspec.structs.replace(
        rules, buggy_share=fill.share("buggy", buggy), cancelled_share=fill.share("cancelled", cancelled)
    )
    conditions = _conditions(
        cluster,
        read_pool_options(pool, pool_nodes, pool_window, pool_warning),
        resize_cost,
        noise,
        profile_error,
        between_steps,
        node_mtbf,
        node_mttr,
        fault_rates,
        seed,
        refused,
        cores,
        core_options.core_sharing(cpu_shares, interference),
        report_every,
        _quotas(quota or []),
    )
    names = policy_names(policy)
    refuse_unkept(names, conditions.quotas, "leave --quota out")
    inputs = [file for file in (trace, pool, pool_nodes) if file is not None]
    check_files({"--json": None if str(json) == "-" else json, "--jobs": jobs, "--html": html}, inputs)
    is_logged = jobs is not None or stories is not None
    workload, scenario = _scenario(trace, format, strict, profiles, rules, conditions, len(names), is_logged)
    check_folder("--plot", plot)
    check_folder("--stories", stories)
    most = _bound(scenario, conditions) if bound else None
    _note_undivided(names, conditions)
    truth = truth_of(workload, conditions, settings.changed, most)
    has_offers = jobs is not None or html is not None
    runs = {name: _run(name, scenario, settings, stories, jobs is not None, has_offers) for name in names}
    results = _results(runs, truth, conditions, timing)
    if str(json) == "-":
        print_json(results)
    else:
        print_results(results, timing)
    _write(runs, results, json, jobs, stories, plot)
    if html is not None:
        _write_report(html, SimulatedLog(workload, scenario, results, runs), command_line(context))


def _write_report(file: Path, log: SimulatedLog, command: str) -> None:
    from swell.sim.html_report import write_report

    with writing("--html", file):
        write_report(file, log, command)
    note(f"wrote {file}")


def _note_undivided(names: Sequence[str], conditions: Conditions) -> None:
    """A note and no error: jobs run, as they would first come, first served."""
    from swell.policies.registry import POLICIES

    dividing = [name for name in names if POLICIES[name].domain.shares_cores]
    if dividing and conditions.cores is None:
        warn(
            f"{', '.join(dividing)}: to divide cores, jobs must share them, and without --cores each device "
            "has its own: shares change nothing, and jobs run as under fifo; give --cores NUMBER"
        )


def policy_names(text: str) -> list[str]:
    """Raises InvalidInput for one that there is not."""
    from swell.policies.registry import UnknownPolicy, new_policy

    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidInput("--policy names no policy; write for example elasticflow,fifo")
    for name in names:
        try:
            new_policy(name)
        except UnknownPolicy as error:
            raise InvalidInput(str(error)) from error
    return names


def _bound(scenario: Scenario, conditions: Conditions) -> float | None:
    from swell.sim.bound import offline_bound

    if conditions.pool is not None:
        raise InvalidInput("--bound is for clusters whose devices stay; leave --bound or --pool out")
    return offline_bound(scenario.jobs, conditions.num_devices)


def _settings(texts: list[str]) -> Settings:
    from swell.settings import InvalidSetting, make_settings, parse_setting
    from swell.sim.stage import SETTINGS

    try:
        return make_settings(SETTINGS | dict(parse_setting(text) for text in texts))
    except InvalidSetting as error:
        raise InvalidInput(f"--set: {error}") from error


def _conditions(
    cluster: str | None,
    pool: Pool | None,
    resize_cost: str,
    noise: float,
    profile_error: float,
    between_steps: str | None,
    node_mtbf: str | None,
    node_mttr: str,
    fault_rates: str,
    seed: int,
    refused: AfterRefusal,
    cores: float | None,
    sharing: CoreDivision,
    report_every: str | None,
    quotas: dict[str, Quota],
) -> Conditions:
    from swell.sim.injected_faults import parse_fault_rates
    from swell.sim.stage import MAX_NOISE, Conditions

    if cluster is None and pool is None:
        raise InvalidInput("there are no nodes; give --cluster NODESxDEVICES, --pool INTERVALS.csv, or both")
    nodes, cross, devices = ("0", "x", "0") if cluster is None else cluster.partition("x")
    if not (cross and nodes.isdecimal() and devices.isdecimal()):
        raise InvalidInput(f"--cluster is {cluster!r}; write NODESxDEVICES, such as 16x8")
    return Conditions(
        nodes=int(nodes),
        devices_per_node=int(devices),
        pool=pool,
        resize_cost=resize_cost,
        noise_share=fill.share("noise", noise, most=MAX_NOISE),
        profile_error_share=fill.share("profile-error", profile_error, most=MAX_NOISE),
        epoch_ends=None if between_steps is None else _epoch_ends(between_steps),
        node_mtbf_s=None if node_mtbf is None else _seconds("node-mtbf", node_mtbf),
        node_mttr_s=_seconds("node-mttr", node_mttr),
        fault_rates=parse_fault_rates(fault_rates),
        seed=seed,
        refused=refused,
        cores=cores,
        sharing=sharing,
        report_s=None if report_every is None else _seconds("report-every", report_every),
        quotas=quotas,
    )


def _quotas(texts: Sequence[str]) -> dict[str, Quota]:
    """Raises InvalidInput."""
    from swell.api.quotas import parse_quotas

    return {tenant: quota for tenant, quota in parse_quotas(texts).items() if quota is not None}


def _epoch_ends(text: str) -> EpochEnds:
    from swell.sim.epoch_ends import EpochEnds

    duration, slash, steps = text.partition("/")
    if not slash or not steps.isdecimal() or not int(steps):
        raise InvalidInput(f"--between-steps is {text!r}; write DURATION/STEPS, such as 2s/500")
    return EpochEnds(_seconds("between-steps", duration), int(steps))


def _seconds(option: str, text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput(f"--{option}: {error}") from None


def _scenario(
    trace: Path,
    format: str | None,
    strict: bool,
    profiles: str,
    rules: Rules,
    conditions: Conditions,
    num_runs: int,
    is_logged: bool,
) -> tuple[Workload, Scenario]:
    from swell.cli.progress import reading
    from swell.sim.profiles.load import load
    from swell.sim.stage import set_up
    from swell.sim.traces.fill import fill as fill_trace
    from swell.sim.traces.log import Log
    from swell.sim.traces.record import plural

    with reading(trace) as watch:
        log = Log(trace, format, strict, watch)
    for line in log.warnings:
        warn(f"{trace}: {line}")
    if log.num_skipped:
        warn(f"{trace}: {plural(log.num_skipped, 'line')} skipped; `swell trace info {trace}` says why")
    _check_room(log, num_runs, is_logged)
    profile_set = load(profiles)
    workload = fill_trace(log, profile_set, rules)
    for line in workload.left_out():
        warn(f"left out: {line}")
    return workload, set_up(workload, profile_set, conditions)


def _check_room(log: Log, num_runs: int, is_logged: bool) -> None:
    """What is kept of jobs must fit into memory in the end: better said now than found out after a day."""
    import psutil

    from swell.sim.simulate import BYTES_AN_ENDED_JOB, BYTES_OF_ITS_GANGS
    from swell.sim.traces.record import plural

    num_jobs = len(log.jobs)
    job_bytes = BYTES_AN_ENDED_JOB + (BYTES_OF_ITS_GANGS if is_logged else 0)
    needed_bytes, free_bytes = num_jobs * num_runs * job_bytes, psutil.virtual_memory().available
    if needed_bytes > free_bytes:
        raise InvalidInput(
            f"{log.source} has {num_jobs:,} jobs; what {plural(num_runs, 'run')} would keep of them takes "
            f"{needed_bytes / 1e9:.1f} GB of memory, and {free_bytes / 1e9:.1f} GB are free; simulate fewer "
            "policies at once, or a part of the trace, as its first lines"
        )


def _run(
    policy: str,
    scenario: Scenario,
    settings: Settings,
    stories: Path | None,
    is_listed: bool,
    has_offers: bool,
) -> SimOutcome:
    """Simulate one policy.

    Args:
        is_listed: what each job's gangs did is written.
        has_offers: what each refused job was offered is.
    """
    from swell.assemble import new_core
    from swell.cli.progress import progress_bar
    from swell.sim.diary import Diary, with_gangs
    from swell.sim.segments import UNLOGGED, SegmentLog
    from swell.sim.simulate import simulate as run
    from swell.store.run_record import RunRecord

    core = new_core(policy, settings)
    with progress_bar(policy, len(scenario.jobs)) as advance:
        if stories is None:
            log = SegmentLog() if is_listed else UNLOGGED
            return run(core, scenario, advance, with_offers=has_offers, log=log)
        diary = Diary()
        outcome = run(core, scenario, advance, diary.listen, log=SegmentLog())
    told = with_gangs(diary.stories, outcome.jobs)
    with writing("--stories", stories):
        file = RunRecord(stories).write(policy, core.save(), diary.jobs(core), told)
    note(f"wrote {file}")
    return outcome


def _results(
    runs: Mapping[str, SimOutcome], truth: Truth, conditions: Conditions, timing: bool
) -> list[PolicyResult]:
    from swell.sim.metrics import metrics_of, timing_of
    from swell.sim.report import PolicyResult

    return [
        PolicyResult(
            policy=policy,
            cluster=conditions.shape,
            truth=truth,
            metrics=metrics_of(outcome),
            timing=timing_of(outcome) if timing else None,
        )
        for policy, outcome in runs.items()
    ]


def _write(
    runs: Mapping[str, SimOutcome],
    results: list[PolicyResult],
    json: Path | None,
    jobs: Path | None,
    stories: Path | None,
    plot: Path | None,
) -> None:
    from swell.sim.report import write_jobs
    from swell.sim.run_files import write_run

    if json is not None and str(json) != "-":
        with writing("--json", json):
            write_json(json, results)
    if jobs is not None:
        with writing("--jobs", jobs):
            write_jobs(jobs, ((policy, outcome.jobs) for policy, outcome in runs.items()))
    if stories is not None:
        with writing("--stories", stories):
            for result in results:
                write_run(stories, result, runs[result.policy].jobs)
    if plot is not None:
        from swell.sim.pictures import draw_all
        from swell.sim.result_tables import machines

        title = f"{Path(results[0].truth.trace).name} on {machines(results[0])}"
        with writing("--plot", plot):
            files = draw_all(runs, title, plot)
        for file in files:
            note(f"wrote {file}")
