"""`swell demo`: real jobs under real deadlines on this machine, from the first to the verdict."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

import swell.demo
from swell.api.client import Client, connect
from swell.api.errors import InvalidOption
from swell.cli.extras import require
from swell.cli.output import raw
from swell.cli.temporary_platform import brief_platform
from swell.demo.board import board, changes
from swell.demo.report import as_json, table, verdict
from swell.demo.schedule import CAST, PACED_DEVICES, DemoSchedule, DemoSubmission
from swell.demo.watch import Watch
from swell.executors.local.devices import DeviceError, parse_devices
from swell.model.view import ClusterView, JobView

#: Seconds between two looks at the platform.
LOOK_EVERY_S = 0.25
#: A job that has not ended by then never will.
GIVE_UP_AFTER_S = 300.0
#: With fewer real devices there would be little to see.
LEAST_REAL_DEVICES = 4
#: Columns of the table where no terminal says how many there are.
WIDTH_IN_FILES = 140
#: What its scripts import, by the name of the package.
NEEDED = ("torch", "sklearn", "matplotlib")
SCRIPTS = Path(swell.demo.__file__).parent


def demo(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results to this file as JSON.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the picture.")] = Path("demo-out"),
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICES",
            help="Devices, as for `swell up`. Default: the machine's GPUs if there are four "
            f"or more, else {PACED_DEVICES}: paced devices, which train for real at a "
            "fixed speed.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, metavar="N", help="Random seed of weights and sample order.")
    ] = 0,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="State folder of a platform that is up and has no open jobs: run the jobs there, on all "
            "machines that have joined it, instead of on a platform of their own.",
        ),
    ] = None,
) -> None:
    """Train eight real jobs under deadlines, and show which promises were kept.

    They run on this machine, or with --state on a platform that is up. Exits with 0 only if every promise was
    kept and every model learned.
    """
    if state is not None and devices is not None:
        raise InvalidOption("--devices is of a platform of the demo's own; leave it out with --state")
    require(NEEDED, "the demo", "demo")
    console = Console(file=raw(sys.stdout))  # its picture is drawn again and again at the same place
    if not console.is_terminal:
        console = Console(width=WIDTH_IN_FILES)
    _make(out, "--out")
    if json_file is not None:
        _make(json_file.parent, "--json")
        _check_file(json_file)
    with _platform(console, devices) if state is None else _idle_platform(state) as client:
        play = Play(client, console, seed)
        play.run()
        cluster, views = client.cluster(), play.views()
        failures = verdict(play.schedule.played, views)
        _show(console, play, views, failures)
        picture = _draw(out, cluster, play, views)
        console.print(f"Picture: {picture}")
        if json_file is not None:
            is_paced = all(node.kind.startswith("paced") for node in cluster.nodes)
            found = as_json(_describe(cluster), is_paced, views)
            json_file.write_text(json.dumps(found, indent=2) + "\n")
            console.print(f"JSON: {json_file}")
        if failures:
            raise typer.Exit(1)


def _platform(console: Console, devices: str | None) -> AbstractContextManager[Client]:
    """One of the demo's own."""
    chosen = _checked(devices) if devices else _choose_devices(console)
    options = ["--devices", chosen, "--preload", "sklearn.datasets"]
    return brief_platform(options, "swell-demo-", lambda text: _say(console, text))


def _idle_platform(state: Path) -> Client:
    """One that is up. Its other jobs would take devices that the demo's promises count on."""
    client = connect(state)
    open_jobs = sum(not view.phase.is_end for view in client.jobs())
    if open_jobs:
        client.close()
        raise InvalidOption(
            f"the platform in {state} has {open_jobs} open jobs; the demo needs one without: "
            f"wait for them or `swell cancel` them"
        )
    return client


def _checked(devices: str) -> str:
    try:
        parse_devices(devices)
    except DeviceError as error:
        raise InvalidOption(str(error)) from error
    return devices


def _make(folder: Path, option: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidOption(
            f"folder {folder} cannot be created ({error.strerror}); choose another with {option}"
        ) from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidOption(f"folder {folder} cannot be written; choose another with {option}")


def _check_file(file: Path) -> None:
    """Said before the demo, not after it."""
    if file.is_dir():
        raise InvalidOption(f"{file} is a folder; name a file in it with --json")
    if file.exists() and not os.access(file, os.W_OK):
        raise InvalidOption(f"file {file} cannot be written; choose another with --json")


def _choose_devices(console: Console) -> str:
    try:
        num_gpus = sum(len(local.node.devices) for local in parse_devices("cuda"))
    except DeviceError:
        num_gpus = 0
    if num_gpus >= LEAST_REAL_DEVICES:
        return "cuda"
    console.print(
        f"This machine has {num_gpus or 'no'} GPUs, so the demo uses paced devices "
        f"({PACED_DEVICES}): their workers train for real, with gradients and all-reduces, at "
        "the fixed speed of a slow GPU."
    )
    return PACED_DEVICES


class Play:
    """The cast on the stage: submits, looks, shows."""

    def __init__(self, client: Client, console: Console, seed: int) -> None:
        self.client = client
        self.opened_s = client.cluster().now_s
        self._give_up_s = time.monotonic() + GIVE_UP_AFTER_S
        self.schedule = DemoSchedule(CAST)
        self.watch = Watch()
        self._console = console
        self._seed = seed
        self._num_devices = client.cluster().num_devices
        self._views: list[JobView] = []

    def run(self) -> None:
        """Returns when everybody has ended, or when it is time to give up."""
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while True:
                self._look(live)
                if self.schedule.is_over(self._views) or time.monotonic() > self._give_up_s:
                    return
                time.sleep(LOOK_EVERY_S)

    def views(self) -> list[JobView]:
        """Those of its jobs, of all that the platform shows."""
        return [view for view in self.client.jobs() if view.submitted_s >= self.opened_s]

    def _look(self, live: Live) -> None:
        views = self.views()
        now_s = self.client.cluster().now_s
        self.watch.look(now_s, views)
        if self._console.is_terminal:
            live.update(board(views, self._num_devices, self.opened_s, now_s), refresh=True)
        else:
            for line in changes(self._views, views):
                self._console.print(f"{now_s - self.opened_s:6.1f} s  {line}", highlight=False)
        self._views = views
        for submission in self.schedule.due(now_s, views):
            self._submit(submission)

    def _submit(self, submission: DemoSubmission) -> None:
        part = submission.part
        workload = part.workload
        options = {"--epochs": part.epochs, "--batch": workload.global_batch, "--seed": self._seed}
        self.client.submit(
            name=part.name,
            script=SCRIPTS / workload.script,
            workdir=SCRIPTS,
            args=[str(word) for option in options.items() for word in option],
            global_batch=workload.global_batch,
            epochs=part.epochs,
            job_class=part.job_class,
            deadline=submission.deadline_s,
            seed=self._seed,
        )


def _describe(cluster: ClusterView) -> str:
    """Such as `paced:4x2@100`, or the sizes of nodes that differ: `paced@100: 2+2+4`."""
    kinds = sorted({node.kind for node in cluster.nodes})
    sizes = [len(node.devices) for node in cluster.nodes]
    if len(kinds) == 1 and len(set(sizes)) == 1:
        kind, _, pace = kinds[0].partition("@")
        return f"{kind}:{len(sizes)}x{sizes[0]}" + (f"@{pace}" if pace else "")
    return f"{', '.join(kinds)}: {'+'.join(map(str, sizes))}"


def _show(console: Console, play: Play, views: list[JobView], failures: list[str]) -> None:
    console.print(table(play.schedule.played, views))
    for view in views:
        if view.counter_offer_s is not None:
            console.print(f"{view.name} was refused: {view.reason}", highlight=False, markup=False)
    for failure in failures:
        console.print(f"Failed: {failure}", style="red", highlight=False, markup=False)
    if not failures:
        num_resizes = sum(view.resizes for view in views)
        lost_s = sum(view.resize_pause_s for view in views)
        console.print(
            f"Every promise was kept and every model learned; {num_resizes} resizes inside live processes "
            f"took {lost_s:.1f} s from training.",
            highlight=False,
        )


def _draw(out: Path, cluster: ClusterView, play: Play, views: list[JobView]) -> Path:
    picture = out / "timeline.png"
    devices = [device for node in cluster.nodes for device in node.devices]
    from swell.demo.timeline import draw

    draw(devices, play.watch.finish(cluster.now_s), views, picture)
    return picture


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)
