"""`swell simulate`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from swell.cli import core_options
from swell.cli import fill_options as fill
from swell.cli import simulate_options as option
from swell.cli.command_line import command_line
from swell.cli.destinations import writing
from swell.cli.output import note, print_json, warn
from swell.cli.pool_options import read_pool_options
from swell.cli.simulate_conditions import read_conditions
from swell.cli.simulate_files import SimulationFiles
from swell.cli.simulate_table import print_results
from swell.model.errors import InvalidInput
from swell.model.job import AfterRefusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from swell.settings import Settings
    from swell.sim.outcome import SimOutcome
    from swell.sim.report import PolicyResult, Truth
    from swell.sim.simulate import Scenario
    from swell.sim.stage import Conditions
    from swell.sim.traces.log import Log
    from swell.sim.traces.rules import Rules
    from swell.sim.traces.workload import Workload


def simulate(
    context: typer.Context,
    trace: option.Trace,
    cluster: option.Cluster = None,
    policy: option.Policy = "elasticflow",
    profiles: option.Profiles = "law",
    resize_cost: option.ResizeCost = "changed",
    noise: option.Noise = 0.0,
    profile_error: option.ProfileError = 0.0,
    between_steps: option.BetweenSteps = None,
    cores: core_options.Cores = None,
    cpu_shares: core_options.CpuSharesOption = "weight",
    interference: core_options.Interference = 0.0,
    report_every: core_options.ReportEvery = None,
    node_mtbf: option.NodeMtbf = None,
    node_mttr: option.NodeMttr = "1h",
    pool: option.Pool = None,
    pool_nodes: option.PoolNodes = None,
    pool_window: option.PoolWindow = None,
    pool_warning: option.PoolWarning = None,
    fault_rates: option.FaultRates = "",
    buggy: option.Buggy = 0.0,
    cancelled: option.Cancelled = 0.0,
    seed: fill.FillSeed = 0,
    deadlines: fill.Deadlines = "missing",
    tightness: fill.Tightness = "0.5:1.5",
    best_effort: fill.BestEffort = 0.0,
    soft: fill.Soft = 0.0,
    unknown: fill.Unknown = "refuse",
    draw_losses: fill.DrawLosses = False,
    refused: option.Refused = AfterRefusal.END,
    format: fill.Format = None,
    strict: fill.Strict = False,
    quota: option.Quota = None,
    set_: option.Set = None,
    json: option.Json = None,
    jobs: option.Jobs = None,
    plot: option.Plot = None,
    html: option.Html = None,
    stories: option.Stories = None,
    bound: option.Bound = False,
    timing: option.Timing = False,
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
    conditions = read_conditions(
        cluster=cluster,
        pool=read_pool_options(pool, pool_nodes, pool_window, pool_warning),
        resize_cost=resize_cost,
        noise=noise,
        profile_error=profile_error,
        between_steps=between_steps,
        node_mtbf=node_mtbf,
        node_mttr=node_mttr,
        fault_rates=fault_rates,
        seed=seed,
        refused=refused,
        cores=cores,
        sharing=core_options.core_sharing(cpu_shares, interference),
        report_every=report_every,
        quota=quota or [],
    )
    names = policy_names(policy)
    refuse_unkept(names, conditions.quotas, "leave --quota out")
    files = SimulationFiles(json=json, jobs=jobs, plot=plot, html=html, stories=stories)
    files.check_files(file for file in (trace, pool, pool_nodes) if file is not None)
    log = _read(trace, format, strict, len(names), files)
    workload, scenario = _set_up(log, profiles, rules, conditions, settings)
    files.check_folders()
    most = _bound(scenario, conditions) if bound else None
    _note_undivided(names, conditions)
    truth = truth_of(workload, conditions, settings.changed, most)
    runs = {name: _run(name, scenario, settings, files) for name in names}
    results = _results(runs, truth, conditions, timing)
    if files.prints_json:
        print_json(results)
    else:
        print_results(results, timing)
    files.write(SimulatedLog(workload, scenario, results, runs), command_line(context))


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


def _read(trace: Path, format: str | None, strict: bool, num_runs: int, files: SimulationFiles) -> Log:
    from swell.cli.progress import reading
    from swell.sim.traces.log import Log
    from swell.sim.traces.record import plural

    with reading(trace) as watch:
        log = Log(trace, format, strict, watch)
    for line in log.warnings:
        warn(f"{trace}: {line}")
    if log.num_skipped:
        warn(f"{trace}: {plural(log.num_skipped, 'line')} skipped; `swell trace info {trace}` says why")
    _check_room(log, num_runs, files.has_gangs)
    return log


def _set_up(
    log: Log, profiles: str, rules: Rules, conditions: Conditions, settings: Settings
) -> tuple[Workload, Scenario]:
    from swell.sim.profiles.load import load
    from swell.sim.stage import set_up
    from swell.sim.traces.fill import fill as fill_trace

    profile_set = load(profiles)
    workload = fill_trace(log, profile_set, rules)
    for line in workload.left_out():
        warn(f"left out: {line}")
    scenario = set_up(workload, profile_set, conditions)
    timings = replace(
        scenario.timings,
        checkpoint_interval_s=settings.checkpoint_interval_s,
        notice_s=settings.leases.wait_s,
    )
    return workload, replace(scenario, timings=timings)


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


def _run(policy: str, scenario: Scenario, settings: Settings, files: SimulationFiles) -> SimOutcome:
    """Simulate one policy, and write its story."""
    from swell.cli.progress import progress_bar
    from swell.scheduler import new_core
    from swell.sim.event_log import EventLog, with_gangs
    from swell.sim.segments import UNLOGGED, SegmentLog
    from swell.sim.simulate import simulate as run

    core, log = new_core(policy, settings), SegmentLog() if files.has_gangs else UNLOGGED
    with progress_bar(policy, len(scenario.jobs)) as advance:
        if files.stories is None:
            return run(core, scenario, advance, with_offers=files.has_offers, log=log)
        events = EventLog()
        outcome = run(core, scenario, advance, events.listen, log=log)
    from swell.store.run_record import RunRecord  # SQLAlchemy and all

    told = with_gangs(events.stories, outcome.jobs)
    with writing("--stories", files.stories):
        file = RunRecord(files.stories).write(policy, core.save(), events.jobs(core), told)
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
