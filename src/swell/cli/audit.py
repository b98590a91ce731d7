"""`swell audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import Json
from swell.cli.output import print_json
from swell.model.errors import InvalidInput

if TYPE_CHECKING:
    from swell.sim.audit.run import Audit

#: Differences that are shown of a policy; beyond them they are counted.
NUM_SHOWN = 20


def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder that `swell simulate --stories` wrote.")],
    policy: Annotated[
        str | None, typer.Option(metavar="NAME,...", help="Only these policies of the run.")
    ] = None,
    profiles: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|NAME",
            help="Also compare rates with these throughput tables, with which the run was simulated.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Recompute a simulated run from its record: steps, times, devices, deadlines, figures.

    Reads the segments that gangs trained in, and nothing that the simulator added up of them. Each difference
    is one line. Exit status 1: there is a difference.
    """
    from swell.sim.audit.run import audit as look
    from swell.sim.profiles.load import load
    from swell.sim.run_files import read_run

    profile_set = None if profiles is None else load(profiles)
    found = [look(read_run(run, name), profile_set) for name in _policies(run, policy)]
    if json:
        print_json(found)
    else:
        for one in found:
            _print(one)
    if any(one.differences for one in found):
        raise typer.Exit(1)


def _policies(run: Path, wanted: str | None) -> list[str]:
    """Raises InvalidInput for one that the run has not."""
    from swell.sim.run_files import recorded_policies

    known = recorded_policies(run)
    names = known if wanted is None else [name.strip() for name in wanted.split(",")]
    if missing := [name for name in names if name not in known]:
        raise InvalidInput(f"the run in {run} has no policy {missing[0]!r}; it has {', '.join(known)}")
    return names


def _print(found: Audit) -> None:
    num = len(found.differences)
    said = "no difference" if not num else "1 difference" if num == 1 else f"{num:,} differences"
    print(
        f"{found.policy}: {found.num_jobs:,} jobs, {found.num_segments:,} segments, "
        f"{found.num_devices:,} devices: {said}"
    )
    for difference in found.differences[:NUM_SHOWN]:
        print(f"  {difference.where}: {difference.what}")
    if num > NUM_SHOWN:
        print(f"  and {num - NUM_SHOWN:,} more; --json has them all")
