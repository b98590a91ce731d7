"""Pages of the documents that are made of the program when the site is built."""

from __future__ import annotations

import ast
import inspect
import json
import math
from pathlib import Path
from typing import Any

import msgspec
import typer

from swell.api.openapi import document
from swell.api.prometheus import PlatformMetrics, described
from swell.api.submission import JobField, declared
from swell.api.verbs import VERBS
from swell.cli.commands import load_all
from swell.cli.main import app
from swell.live.counters import PlatformCounts, PlatformValues
from swell.model.view import ClusterView
from swell.policies.registry import POLICIES, parameters_of
from swell.settings import DEFAULTS, HEARTBEATS_IN_SILENCE, RULES, spell

ROOT = Path(__file__).parents[1]

EXAMPLE = """\
```yaml
# one job, or a list of them (`- name: ...`)
name: digits
script: train.py
args: [--lr, 0.1]
global_batch: 64
epochs: 12
until: accuracy>=0.97
deadline: now+3m
class: strict
workers: 1:8
```
"""

SWEEP = """\
## Sweep

A job with `sweep` stands for one job for each combination of its parameters. `{NAME}` in a text of the job is
the value of a parameter. The jobs are called `NAME-1`, `NAME-2`, ..., unless `name` holds a parameter; they
are a group, and each has its parameters as tags.

```yaml
name: lr
script: train.py
args: [--lr, "{lr}", --width, "{width}"]
seed: "{seed}"
global_batch: 64
epochs: 12
sweep:
  lr: [0.1, 0.01]
  width: [64, 128]
  seed: [1, 2, 3]
```

A list of combinations (`sweep: [{lr: 0.1, width: 64}, {lr: 0.01, width: 128}]`) stands for these alone.
"""


def cli_page() -> str:
    """Every command with its arguments and options."""
    group = typer.main.get_command(app)
    commands = load_all()
    parts = [
        f"# Command line\n\n{_text(group.help)}\n",
        "Exit status: 0 success; 1 failure (one line on stderr says why): of a job, a check or the command "
        "itself; 2 an invalid command line, job or input, an unknown name, or options with which no platform "
        "starts; 3 a deadline was refused; 4 a job was cancelled (`swell wait`); 5 no platform is running, "
        "or it does not answer; 6 a job's script ended before its job (`swell wait`); 124 time is up "
        "(`swell wait --timeout`).\n",
    ]
    parts.append("Before the command:\n\n" + "\n".join(_options(group, group.params)) + "\n")
    for name, command in commands.items():
        inner = getattr(command, "commands", {})
        parts += [_command(name, command)] if command.params or not inner else []
        parts += [_command(f"{name} {inner_name}", found) for inner_name, found in inner.items()]
    return "\n".join(parts)


def _command(name: str, command: Any) -> str:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    names = [argument.metavar or argument.name.upper() for argument in arguments]
    shown = [
        name if argument.required else f"[{name}]..." for name, argument in zip(names, arguments, strict=True)
    ]
    options = [param for param in command.params if param not in arguments]
    usage = " ".join(("swell", name, *shown, *(["[OPTIONS]"] if options else [])))
    lines = [f"## swell {name}", "", _text(command.help), "", f"    {usage}", ""]
    lines += [f"* `{name}`: {argument.help}" for name, argument in zip(names, arguments, strict=True)]
    return "\n".join([*lines, *_options(command, options)]) + "\n"


def _options(command: Any, options: list[Any]) -> list[str]:
    context = typer.Context(command)
    for option in options:
        option.hidden = False
    records = filter(None, (option.get_help_record(context) for option in options))
    return [f"* `{option}`: {text or option.lstrip('-').split()[0] + '.'}" for option, text in records]


def _text(text: str | None) -> str:
    return inspect.cleandoc(text or "")


def job_file_page() -> str:
    """Every field of a job file, with its type, default and meaning."""
    lines = [
        "# Job file\n",
        "A job as `swell submit FILE.yaml` takes it. `swell submit` has an option of the same name for each "
        "field, and `swell.connect().submit(...)` a keyword (`job_class` for `class`). Relative paths start "
        "at the file's folder, or at the current one without a file. Durations are written `90s`, `3m`, "
        f"`2h`, `1d`, `1h30m`.\n\n{EXAMPLE}",
        "| field | meaning | default |",
        "|---|---|---|",
    ]
    for field in declared().values():
        meaning = field.option.description.replace("|", "\\|")
        lines.append(f"| `{field.word}` | {meaning} | {_default(field)} |")
    lines.append(f"\n{SWEEP}")
    return "\n".join(lines)


def _default(field: JobField) -> str:
    return "" if field.default in (None, (), msgspec.NODEFAULT) else f"`{field.default}`"


def settings_page() -> str:
    """Every setting with its default, bounds and meaning."""
    lines = [
        "# Settings\n",
        "Set with `swell up --set NAME=VALUE`, which may be repeated. Later starts keep the values; "
        "`--set ''` resets all of them. Names that end in `_s` are in seconds.\n",
        "The first seven and those named `code_...`, `user_...` and `access_...` take effect with that "
        "`swell up`. The others belong to the "
        "agent, which keeps the values it was started with: if it still runs because the daemon was killed, "
        "run `swell down` first. "
        f"`silence_s` must be at least {HEARTBEATS_IN_SILENCE} times `heartbeat_s`.\n",
        "| setting | meaning | default | least | most |",
        "|---|---|---|---|---|",
    ]
    for name, rule in RULES.items():
        numbers = " | ".join(spell(number) for number in (DEFAULTS[name], rule.ge, rule.le))
        lines.append(f"| `{name}` | {rule.description} | {numbers} |")
    return "\n".join([*lines, *_parameters()]) + "\n"


def _parameters() -> list[str]:
    """Those of policies, with what every policy has in one line."""
    lines = [
        "\n## Parameters of policies\n",
        "Set in the same way, for example `--set tiresias.promote_knob=4`; they take effect with that "
        "`swell up`, and in `swell simulate`. Every policy has `period_s`, the longest time between two "
        "decisions (default: none).\n",
        "| parameter | meaning | default |",
        "|---|---|---|",
    ]
    for name, policy in POLICIES.items():
        defaults = {field.name: field.default for field in msgspec.structs.fields(policy)}
        for parameter, meta in parameters_of(name).items():
            if parameter != "period_s" or defaults[parameter] != math.inf:
                lines.append(
                    f"| `{name}.{parameter}` | {meta.description} | {spell(defaults[parameter]) or 'none'} |"
                )
    return lines


def metrics_page() -> str:
    """Every metric with its labels and meaning."""
    lines = [
        "# Metrics\n",
        "What `GET /metrics` answers ([how Prometheus reads it](../how-to/monitor.md#prometheus)), "
        "beside `process_...` and `python_info`, which tell of the daemon's process. No label names a job, a "
        "user or a node, so the number of time series is bounded.\n",
        "Counters and histograms begin at 0 when the daemon is started, unless their meaning says otherwise; "
        "`rate` and `increase` allow for that. What the journal tells again after a restart is not counted "
        "again. What happened after the last scrape before a daemon was killed is not counted at all.\n",
        "| metric | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for metric in described():
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        lines.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} |")
    return "\n".join([*lines, "\n## Values of labels\n", *_label_values()]) + "\n"


def _label_values() -> list[str]:
    """Of labels whose values are known beforehand: a platform that has just been started tells them all."""
    cluster = ClusterView(
        version="",
        policy="",
        now_s=0.0,
        started_s=0.0,
        nodes=(),
        num_devices=0,
        num_free=0,
        num_stale_reports=0,
        journal_bytes=0,
    )
    idle = PlatformValues(cluster=cluster, jobs={}, promises={}, num_workers=0, num_batches=0)
    found: dict[tuple[str, str], dict[str, None]] = {}
    for family in (*PlatformMetrics(lambda: idle).collect(), *PlatformCounts().collect()):
        for sample in family.samples:
            if family.type != "histogram" and family.name != "swell_info":
                for label, value in sample.labels.items():
                    found.setdefault((sample.name, label), {})[value] = None
    lines = ["| metric | label | values |", "|---|---|---|"]
    for (name, label), values in found.items():
        lines.append(f"| `{name}` | `{label}` | {', '.join(f'`{value}`' for value in values)} |")
    return lines


def openapi_document() -> str:
    """The control API, for generators of clients and for tests."""
    return json.dumps(document(VERBS), indent=1) + "\n"


SCRIPTS = ROOT / "tests/scripts"
#: What becomes of the scripts of a folder, and the mark of the line that is named.
FATES = {
    "same": (
        "learns and reports the same at 1, 2, 3 and 4 workers, and through resizes, kills and resumes",
        "",
    ),
    "differs": ("is limited to one worker, with this finding at its line", "differs"),
    "refused": ("ends with an error that names the line and says this", "refused"),
}


def scripts_page() -> str:
    """What becomes of each script that is tried, by folder and by the first line of its docstring."""
    lines = [
        "# Scripts that are tried\n",
        "Training scripts in the idioms that people use, in [`tests/scripts`](../../tests/scripts). "
        "What is guaranteed: [what stays the same](../explanation/what-stays-the-same.md).\n",
    ]
    for folder, (fate, mark) in FATES.items():
        files = sorted((SCRIPTS / folder).glob("*.py"))
        lines += [
            f"## {len(files)}: {fate}\n",
            f"| script | what it does |{' at its line |' if mark else ''}",
        ]
        lines.append("|---|---|---|" if mark else "|---|---|")
        lines += [_script(file, mark) for file in files]
        lines.append("")
    return "\n".join(lines)


def _script(file: Path, mark: str) -> str:
    text = file.read_text("utf-8")
    cells = [
        f"[`{file.name}`](../../{file.relative_to(ROOT)})",
        (ast.get_docstring(ast.parse(text)) or "").splitlines()[0],
    ]
    if mark:
        [line] = [line for line in text.splitlines() if f"# {mark}: " in line]
        said = line.split(f"# {mark}: ")[1]
        cells.append(f"`{said}`" if mark == "differs" else said)
    return f"| {' | '.join(cells)} |"


PAGES = {
    "cli.md": cli_page,
    "job-file.md": job_file_page,
    "settings.md": settings_page,
    "metrics.md": metrics_page,
    "openapi.json": openapi_document,
    "scripts.md": scripts_page,
}
