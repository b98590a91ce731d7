"""The files that `swell simulate` writes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.destinations import check_files, check_folder, writing
from swell.cli.output import note, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from swell.sim.report_data import SimulatedLog


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationFiles:
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
        typer.Option(
            metavar="FOLDER",
            help="Write the reasons of all decisions and what gangs did, for `swell explain --run`.",
        ),
    ] = None

    @property
    def prints_json(self) -> bool:
        return str(self.json) == "-"

    @property
    def has_gangs(self) -> bool:
        """Whether what each job's gangs did is kept until the end."""
        return self.jobs is not None or self.stories is not None

    @property
    def has_offers(self) -> bool:
        """Whether what each refused job was offered is told."""
        return self.jobs is not None or self.html is not None

    def check_files(self, inputs: Iterable[Path]) -> None:
        """Before they are read."""
        json = None if self.prints_json else self.json
        check_files({"--json": json, "--jobs": self.jobs, "--html": self.html}, inputs)

    def check_folders(self) -> None:
        """Make those that there are not."""
        check_folder("--stories", self.stories)

    def write(self, log: SimulatedLog, command: str) -> None:
        """All but the stories of runs, which each run writes when it ends; `command`: what was typed."""
        if self.json is not None and not self.prints_json:
            with writing("--json", self.json):
                write_json(self.json, log.results)
        if self.jobs is not None:
            _write_jobs(self.jobs, log)
        if self.html is not None:
            _write_report(self.html, log, command)


def _write_jobs(file: Path, log: SimulatedLog) -> None:
    from swell.sim.report import write_jobs

    with writing("--jobs", file):
        write_jobs(file, ((policy, outcome.jobs) for policy, outcome in log.runs.items()))


def _write_report(file: Path, log: SimulatedLog, command: str) -> None:
    from swell.sim.html_report import write_report

    with writing("--html", file):
        write_report(file, log, command)
    note(f"wrote {file}")
