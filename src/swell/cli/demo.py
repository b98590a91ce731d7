"""`swell demo`: real jobs under real deadlines on this machine, from the first to the verdict."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import typer

import swell.demo
from swell.api.client import Client, connect, connect_as_owner
from swell.api.errors import InvalidOption, NoAnswer, NoPlatform
from swell.api.installed import require
from swell.cli.launch import launch
from swell.cli.options import described
from swell.cli.output import check_files, check_folder, print_table, write_json
from swell.demo.jobs import (
    BATCHES,
    CAST,
    HEADINGS,
    LEGEND,
    PACED_DEVICES,
    DemoJob,
    DemoSchedule,
    changes,
    rows,
    verdict,
)
from swell.executors.local.devices import DeviceError, parse_devices
from swell.model.job import JobClass, Phase
from swell.model.view import JobView
from swell.store.folder import StateFolder

#: Seconds between two looks at the platform.
LOOK_EVERY_S = 0.25
#: A job that has not ended by then never will.
GIVE_UP_AFTER_S = 300.0
#: With fewer real devices there would be little to see.
LEAST_REAL_DEVICES = 4
#: What its scripts import, by the name of the package.
NEEDED = ("torch", "sklearn")
SCRIPTS = Path(swell.demo.__file__).parent


@described(f"""
json_file (--json): FILE
    Write the results to this file as JSON.
devices: DEVICES
    Devices, as for `swell up`. Default: the machine's GPUs if there are four or more, else {PACED_DEVICES}:
    paced devices, which train for real at a fixed speed.
seed (count): N
    Random seed of weights and sample order.
state: FOLDER
    State folder of a platform that is up and has no open jobs: run the jobs there, on all machines that
    have joined it, instead of on a platform of their own.
""")
def demo(
    json_file: Path | None = None, devices: str | None = None, seed: int = 0, state: Path | None = None
) -> None:
    """Train real jobs under deadlines, and show the promises kept.

    Eight jobs run on this machine, or with --state on a platform that is up. Exits with 0 only if every
    promise was kept and every model learned.
    """
    if state is not None and devices is not None:
        raise InvalidOption("--devices is of a platform of the demo's own; leave it out with --state")
    require(NEEDED, "the demo", "demo")
    if json_file is not None:
        check_folder("--json", json_file.parent)
        check_files({"--json": json_file}, [])
    before = "" if shutil.which("swell") else f". {os.path.relpath(sys.prefix)}/bin/activate; "
    with _platform(devices) if state is None else _idle_platform(state) as client:
        print(
            f"Live page, while the demo runs: {client.page().url}\n"
            f"(the link works once, within a minute; another one: {before}swell page --state "
            f"{client.folder.path})",
            flush=True,
        )
        play = DemoRun(client, seed)
        play.run()
        views = play.views()
        failures = verdict(play.schedule.played, views)
        _show(play, views, failures)
        if json_file is not None:
            write_json(json_file, views)
            print(f"JSON: {json_file}")
        if failures:
            raise typer.Exit(1)
    if before:
        print(f"To go on with your own jobs: {before}swell up")


def _platform(devices: str | None) -> AbstractContextManager[Client]:
    """One of the demo's own."""
    chosen = devices or _choose_devices()
    parse_devices(chosen)
    return brief_platform(["--devices", chosen, "--preload", "sklearn.datasets"], "swell-demo-", print)


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


def _choose_devices() -> str:
    try:
        num_gpus = sum(len(local.node.devices) for local in parse_devices("cuda"))
    except DeviceError:
        num_gpus = 0
    if num_gpus >= LEAST_REAL_DEVICES:
        return "cuda"
    print(
        f"This machine has {num_gpus or 'no'} GPUs, so the demo uses paced devices ({PACED_DEVICES}): their\n"
        "workers train for real, with gradients and all-reduces, at the fixed speed of a slow GPU."
    )
    return PACED_DEVICES


class DemoRun:
    """The cast on the stage: submits, looks, tells."""

    def __init__(self, client: Client, seed: int) -> None:
        self.client = client
        self.opened_s = client.cluster().now_s
        self._give_up_s = time.monotonic() + GIVE_UP_AFTER_S
        self.schedule = DemoSchedule(CAST)
        self._seed = seed
        self._views: list[JobView] = []

    def run(self) -> None:
        """Returns when everybody has ended, or when it is time to give up."""
        while True:
            self._look()
            if self.schedule.is_over(self._views) or time.monotonic() > self._give_up_s:
                return
            time.sleep(LOOK_EVERY_S)

    def views(self) -> list[JobView]:
        """Those of its jobs, of all that the platform shows."""
        return [view for view in self.client.jobs() if view.submitted_s >= self.opened_s]

    def _look(self) -> None:
        views = self.views()
        now_s = self.client.cluster().now_s
        for line in changes(self._views, views):
            print(f"{now_s - self.opened_s:6.1f} s  {line}")
        sys.stdout.flush()
        self._views = views
        for part, deadline_s in self.schedule.due(now_s, views):
            self._submit(part, deadline_s)

    def _submit(self, part: DemoJob, deadline_s: float | None) -> None:
        options = {"--epochs": part.epochs, "--batch": BATCHES[part.script], "--seed": self._seed}
        self.client.submit(
            name=part.name,
            script=SCRIPTS / part.script[0],
            workdir=SCRIPTS,
            args=[*part.script[1:], *(str(word) for option in options.items() for word in option)],
            global_batch=BATCHES[part.script],
            epochs=part.epochs,
            job_class=JobClass.SOFT if part.is_soft else None,
            deadline=deadline_s,
            or_nothing=part.second_try is not None,
            seed=self._seed,
        )


def _show(play: DemoRun, views: list[JobView], failures: list[str]) -> None:
    print("\nWhat was promised and what came of it\n")
    print_table(HEADINGS, rows(play.schedule.played, views), wrapping=None)
    print(f"\n{LEGEND}\n")
    for view in views:
        if view.phase is Phase.REJECTED:
            print(f"{view.name} was refused: {view.reason}")
    for failure in failures:
        print(f"Failed: {failure}")
    if not failures:
        num_resizes = sum(view.resizes for view in views)
        lost_s = sum(view.resize_pause_s for view in views)
        print(
            f"Every promise was kept and every model learned; {num_resizes} resizes inside live processes "
            f"took {lost_s:.1f} s from training."
        )


@contextmanager
def brief_platform(options: Sequence[str], prefix: str, say: Callable[[str], None]) -> Iterator[Client]:
    """It always ends; the folder stays only if something went wrong.

    Args:
        options: of `swell up`.
        prefix: of the folder's name.
        say: is told where the folder is if it stays.
    """
    state = Path(tempfile.mkdtemp(prefix=prefix))
    is_good = False
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be asked to end is as Ctrl-C
    try:
        with launch(StateFolder(state), options) as client:
            yield client
        is_good = True
    finally:
        for number in before:
            signal.signal(number, signal.SIG_IGN)  # one is enough: what follows ends soon and must be done
        _take_down(state)
        if is_good:
            shutil.rmtree(state)
            for number, handler in before.items():
                signal.signal(number, handler)
        else:
            say(f"Journal and logs are kept in {state}")


def _take_down(state: Path) -> None:
    """Nothing of the platform runs when this returns."""
    try:
        with connect_as_owner(state) as client:
            for job in client.jobs():
                if not job.phase.is_end:
                    client.cancel(job.id)  # it never goes on: no checkpoint is needed
    except (NoPlatform, NoAnswer):
        pass  # it never came up, or was killed, or hangs: `down` ends what it may have left
    # It says on stderr what it could not end; that it saved nothing of what was cancelled is no matter.
    subprocess.run(
        [sys.executable, "-P", "-m", "swell.cli.main", "down", "--force", "--state", str(state)],
        check=False,
        stdout=subprocess.DEVNULL,
    )
