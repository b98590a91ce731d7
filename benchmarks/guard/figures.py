"""The figures of the guard: how each is compared, and with which anchor."""

from __future__ import annotations

from dataclasses import dataclass

#: By kind: what is more than so many times the baseline's fails. Sizes are only printed.
LIMITS = {"count": 1.03, "pair": 1.05, "memory": 1.05}


@dataclass(frozen=True, slots=True)
class Figure:
    """Its value is of one commit; of kind `pair` only ratios to another commit mean something."""

    name: str
    kind: str
    text: str
    unit: str
    anchor: str = ""


FIGURES = (
    Figure("calls", "count", "calls, 30 jobs simulated", "", "decisions"),
    Figure("calls_a_plan", "count", "  calls a plan", "", "decisions"),
    Figure("turn_calls", "count", "calls of a turn, 300 jobs", "", "decisions"),
    Figure("turn_kib", "count", "allocated at the peak of a turn, 300 jobs", "KiB", "decisions"),
    Figure("modules_help", "count", "modules, swell --help", "", "service"),
    Figure("modules_jobs", "count", "modules, swell jobs", "", "service"),
    Figure("modules_submit", "count", "modules, swell submit", "", "service"),
    Figure("modules_simulate", "count", "modules, swell simulate", "", "service"),
    Figure("modules_up", "count", "modules, swell up", "", "service"),
    Figure("submit_queries", "count", "queries of a submission", "", "service"),
    Figure("submit_bytes", "count", "bytes of a submission", "", "service"),
    Figure("jobs_queries", "count", "queries of swell jobs", "", "service"),
    Figure("jobs_bytes", "count", "bytes of swell jobs", "", "service"),
    Figure("step_calls", "count", "calls of a training step", "", "service"),
    Figure("simulation_s", "pair", "195 jobs simulated, whole command", "s", "decisions"),
    Figure("decisions_1000_s", "pair", "200 decisions, 1,000 jobs on 2,783 devices", "s", "decisions"),
    Figure("decisions_5000_s", "pair", "200 decisions, 5,000 jobs on 10,000 devices", "s", "decisions"),
    Figure("submissions_s", "pair", "200 submissions, daemon", "s", "service"),
    Figure("worker_start_s", "pair", "agent and first worker start", "s", "service"),
    Figure("step_s", "pair", "training step", "s", "service"),
    Figure("resize_s", "pair", "resize", "s", "service"),
    Figure("daemon_mib", "memory", "daemon, 2,000 open jobs", "MiB", "service"),
    Figure("worker_mib", "memory", "worker, its own", "MiB", "service"),
    Figure("simulation_mib", "memory", "195 jobs simulated, peak", "MiB", "decisions"),
    Figure("lines", "size", "lines of src", ""),
    Figure("modules", "size", "modules of src", ""),
    Figure("classes", "size", "classes of src", ""),
    Figure("class_words", "size", "distinct words of class names", ""),
    Figure("cli_options", "size", "options that commands declare", ""),
)
