"""The page of docs/results, of what a run has written: `python -m benchmarks.ray.page RUN.json PAGE.md`."""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.conditions import describe
from benchmarks.ray.changes import CHANGES, GROWTH
from benchmarks.ray.rows import OURS, RIVAL, times_less

_PAGE = """# The same job on Ray nodes: Ray Train and Swell

`make bench-ray` trains one model on a Ray cluster of {nodes} nodes, under Ray Train's own elastic mode and
then under `swell up --engine ray`. Each node is a machine of its own: network, processes and files. In each
round two nodes join, a machine is killed with all its processes, and a node is drained with a notice of
{notice_s:g} s. Which nodes go is drawn, the same for both. The command writes this page.

{table}

Medians of {rounds} rounds, in seconds:

* **pause**: what training lost: from the end of the last step before the change to the end of the first
  step of the new group, less one steady step and less what was trained on the way. It is below zero where
  the first step of the new group is shorter than its steady one;
* **longest**: the longest time without a finished step around the change;
* **next step**: from the cause to the next finished step. The cause is that Ray has both nodes, the kill,
  or the notice;
* **after known**: the same from when Ray knew of the death;
* **steps again**: steps since the last checkpoint, which Ray Train repeats. Swell repeats at most the step
  during which a machine dies.

{starts}After a shrink {hand_over}

## What was wanted

{bars}

## Conditions

* {conditions}.
* The model has 25 million parameters unless the size above says otherwise; data, model and batches have a
  fixed seed. Each worker has one unit of Ray's `CPU`. All nodes share the cores of one computer: what two
  nodes import takes time from each other, and from the job that trains.
* Ray Train has `ScalingConfig(num_workers=(1, {nodes}), elastic_resize_monitor_interval_s={monitor_s:g})`,
  `FailureConfig(max_failures={max_failures})`, and {environ} in its environment. It saves a checkpoint
  every {steps} steps, to a folder that all machines share, at the speed of a local disk. A real network
  file system is slower.
* Swell saves a checkpoint every {interval_s:g} s. What changes it decides is commanded by the benchmark, in
  place of a policy.
* Ray finds dead nodes by health checks with {checks}. With Ray's defaults it takes several times as long
  for both.
* No machine asks a name server. PyTorch wants the names of peers, and a name server that does not answer
  costs each start of a process group 10 s and more. That counts for neither side.
"""


def table_of(found: Mapping[str, Any]) -> str:
    """In Markdown, of the JSON of a run; columns of a side that was not run stay empty."""
    heads = [
        "change",
        *(f"{side} {what}" for what in ("pause", "longest", "next step") for side in (RIVAL, OURS)),
        *("times less pause", "times less next step", "Ray knew", f"{OURS} after known"),
        f"{RIVAL} steps again",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in found["rows"]:
        measured = [row[what].get(side) for what in _MEASURES for side in (RIVAL, OURS)]
        known = list(row["known_s"].values())
        cells = [
            *(_show(value, 2) for value in measured),
            _show(times_less(row["pause_s"]), 0),
            _show(times_less(row["next_step_s"]), 0),
            " / ".join(_show(value, 2) for value in known),
            _show(row["beyond_s"].get(OURS), 2),
            _show(row["num_repeated"].get(RIVAL), 0),
        ]
        lines.append(f"| {CHANGES[row['change']]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


_MEASURES = ("pause_s", "longest_s", "next_step_s")


def page_of(found: Mapping[str, Any]) -> str:
    settings = found["settings"]
    return _PAGE.format(
        nodes=settings["nodes"],
        notice_s=settings["notice_s"],
        table=table_of(found),
        rounds=found["conditions"]["rounds"],
        starts=_starts(found["rows"]),
        hand_over=_hand_over(found["hand_overs"]),
        bars=_bars(found["bars"]),
        conditions=describe(found["conditions"]),
        monitor_s=settings["elastic_resize_monitor_interval_s"],
        max_failures=settings["max_failures"],
        environ=_assigned(settings["ray_train_environment"]),
        steps=settings["ray_train_checkpoint_steps"],
        interval_s=settings["swell_checkpoint_interval_s"],
        checks=_assigned(settings["health_checks"]),
    )


def _starts(rows: Sequence[Mapping[str, Any]]) -> str:
    """Where the time goes until the first step with nodes that join; empty: that was not run."""
    growths = [cost for row in rows if row["change"] == GROWTH for cost in row["costs"].get(OURS, [])]
    reached = growths[0]["reached_s"] if growths else {}
    known = [what for what in reached if all(what in cost["reached_s"] for cost in growths)]
    if not known:
        return ""
    lines = [
        f"From when Ray has both nodes to the first step of {OURS} with them, the later host of the two:",
        "",
        "| reached | after, s |",
        "|---|---|",
        *(
            f"| {what} | {statistics.median(cost['reached_s'][what] for cost in growths):.2f} |"
            for what in known
        ),
        f"| the first step has ended | {_median_next_step_s(growths):.2f} |",
    ]
    return "\n".join(lines) + "\n\n"


def _median_next_step_s(costs: Sequence[Mapping[str, Any]]) -> float:
    return float(statistics.median(cost["pause"]["to_next_step_s"] for cost in costs))


def _hand_over(hand_overs: Sequence[Mapping[str, float]]) -> str:
    if not hand_overs:
        return "the time until another user of Ray has the device was not measured."
    medians = {
        since: statistics.median(each[since] for each in hand_overs)
        for since in ("after_shrink_s", "after_command_s")
    }
    return (
        "by Swell a task of another user of Ray, which waits for the device, runs on it\n"
        f"{medians['after_shrink_s']:.2f} s after the first step of the smaller group, and "
        f"{medians['after_command_s']:.2f} s after the command to shrink.\n"
        "That includes the start of its process; below zero it ran before that step had ended. Ray Train\n"
        "leaves a device only when its node goes."
    )


def _bars(bars: Sequence[Mapping[str, Any]]) -> str:
    lines = ["| wanted | measured | |", "|---|---|---|"]
    for bar in bars:
        verdict = "reached" if bar["is_reached"] else "missed"
        lines.append(f"| {bar['told']} | {_show(bar['measured'], 2)} | {verdict} |")
    return "\n".join(lines)


def _assigned(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in settings.items())


def _show(value: float | None, num_digits: int) -> str:
    if value is None:
        return ""
    return "all" if math.isinf(value) else f"{value:.{num_digits}f}"


def main() -> None:
    run, page = map(Path, sys.argv[1:])
    page.write_text(page_of(json.loads(run.read_text())))


if __name__ == "__main__":
    main()
