"""`swell doctor`, also with `--measure`, `backup` and `restore`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.errors import ApiError, InvalidOption
from swell.cli.node import host_folder
from swell.cli.options import Json, State, node_of_devices
from swell.cli.output import note, print_json, print_table, warn

if TYPE_CHECKING:
    from swell.measure.measurement import DeviceMeasure
    from swell.model.finding import Finding


#: Exit status when something is bad.
BAD = 1


def doctor(
    state: State = None,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Measure starts, resizes, a kill and a checkpoint with real workers on the "
            "devices of this machine, and compare them with what a platform expects. Takes a minute.",
        ),
    ] = False,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICES", help="With --measure: what is measured, such as cuda:2. Default: auto."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check a state folder and this machine.

    Of the folder it looks at journal, jobs, checkpoints and processes, of the machine at devices, torch,
    control groups, containers, layers for trial runs, disk and shared memory. It changes nothing.

    With --measure it measures the devices of this machine instead. On a machine that has joined a platform it
    checks the state folder of `swell node`, and its lease. Exit status 1: a check failed. The platform may be
    running.
    """
    if measure:
        measure_devices(state, devices or "auto", json)
    elif devices is not None:
        raise InvalidOption("--devices goes with --measure: say which devices are to be measured")
    else:
        _tell(_examined(state), json)


def _tell(findings: list[Finding], json: bool) -> None:
    from swell.model.finding import Level

    if json:
        print_json(findings)
    else:
        for found in findings:
            print(f"{found.level.upper():4}  {found.about}: {found.text}")
            if found.remedy:
                print(f"      -> {found.remedy}")
    if any(found.level is Level.BAD for found in findings):
        raise typer.Exit(BAD)


def _examined(state: Path | None) -> list[Finding]:
    """Findings about the platform and the host whose state folders are here, and about this machine once."""
    from swell.api.doctor import about_folder, examine, examine_machine
    from swell.api.machine_findings import host_findings
    from swell.executors.node.state import read_record
    from swell.store.folder import StateFolder

    path, of_host = StateFolder(state).path, host_folder(state)
    is_host = read_record(of_host) is not None
    found = [about_folder(of_host), *host_findings(of_host)] if is_host else []
    if is_host and (path == of_host or not path.is_dir()):
        return found
    return [*examine(path), *(found or examine_machine(path))]


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the copy.")],
    state: State = None,
) -> None:
    """Copy what a platform keeps, but for checkpoints and logs.

    These are the journal, users.json (roles, limits, quotas), options.json, webhooks.yaml and webhook-secret.
    The platform may be running. The copy holds secrets, so only you can read it.
    """
    from swell.store.copies import back_up
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    files = back_up(folder, file)
    what = " and ".join([", ".join(["the journal", *files[:-1]]), *files[-1:]])
    print(f"copied {what} of {folder.path} to {file}: {file.stat().st_size:,} bytes, checked")
    secrets = ["values of --env and addresses of webhooks"]  # jobs are in every journal
    if folder.webhook_secret.name in files:
        secrets.append("what webhooks are signed with")
    if "listen.pem" in files:
        secrets.append("the key by which hosts trust this head")
    print(f"{file} holds secrets ({', and '.join(secrets)}): only you can read it")
    print(f"not included: {folder.jobs} (checkpoints, logs), code and profiles")
    print(f"to go back to it: `swell down`, then `swell restore {file}`")


def restore(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="COPY",
            help="A copy written by `swell admin backup`, or the folder of `swell up --backup-to`.",
        ),
    ],
    state: State = None,
) -> None:
    """Restore the journal, and the files that a copy has besides. No daemon may run.

    All of the copy is checked before anything is replaced. What is replaced is kept under another name.
    Workers of a killed daemon may run: the next `swell up` takes them over. Of a folder the newest sound copy
    is restored, with the code of jobs.
    """
    from swell.store import copies
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    if file.is_dir():
        file, restored, flaws = copies.restore_newest(folder, file)
        for flaw in flaws:
            warn(flaw)
    else:
        copies.refuse_no_file(file)
        folder.create()
        restored = copies.restore(folder, file)
    print(f"{folder.journal} now is a copy of {file}{_moved(restored.journal)}")
    for name, former in restored.files.items():
        print(f"{folder.path / name} is that of the copy{_moved(former)}")
    if restored.files.get(folder.users.name) is not None:
        print("users that were removed since the copy was made are back: look at `swell admin users`")
    if restored.files.get(folder.webhook_secret.name) is not None:
        print("webhooks are signed with the secret of then: receivers need to know it")
    print(
        f"`swell doctor --state {folder.path}` names the folders of jobs that were submitted "
        "since the copy was made"
    )


def _moved(former: Path | None) -> str:
    return "" if former is None else f"; the old one was moved to {former}"


def measure_devices(state: Path | None, devices: str, json: bool) -> None:
    """Measure this machine's devices, and print what was measured.

    Raises:
        InvalidOption: the devices cannot be had.
        ApiError: workers did not do what was to be measured.
    """
    from swell.api.installed import lack_of_torch
    from swell.executors.local.launch import AgentError, find_agent
    from swell.measure.measurement import MeasureFailed, measure
    from swell.store.folder import StateFolder

    if lack := lack_of_torch():
        raise InvalidOption(lack)
    node = node_of_devices(devices)
    if find_agent(StateFolder(state).path) is not None:
        warn("a platform is up here: its jobs and the measurement slow each other down")
    with tempfile.TemporaryDirectory(prefix="swell-measure-") as folder:
        try:
            found = measure(node, Path(folder), lambda what: note(f"measures {what}"))
        except (AgentError, MeasureFailed) as error:
            raise ApiError(f"--measure: {error}") from error
    if json:
        print_json(found)
    else:
        print_table(("WHAT", "MEASURED", "EXPECTED"), map(_row, found), wrapping=0)


def _row(one: DeviceMeasure) -> tuple[str, str, str]:
    return one.what, _seconds(one.measured_s), "-" if one.expected_s is None else _seconds(one.expected_s)


def _seconds(value: float) -> str:
    return f"{value:.3f} s" if value >= 0.0095 else f"{1e3 * value:.3f} ms"
