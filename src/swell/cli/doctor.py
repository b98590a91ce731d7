"""`swell check` of a script, `swell doctor` of a machine, `backup` and `restore`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from swell.cli.options import Json, State, described, node_of_devices, own_state
from swell.cli.output import print_json, print_table, warn
from swell.cli.tokens import host_folder
from swell.model.failure import failure_sentence

if TYPE_CHECKING:
    from swell.model.finding import Finding
    from swell.script_facts import ScriptFinding


#: Exit status when something is bad.
BAD = 1


def doctor(state: State = None, json: Json = False) -> None:
    """Check a state folder and this machine.

    Of the folder it looks at journal, jobs, checkpoints and processes, of the machine at devices, torch,
    control groups, containers, layers for trial runs, disk and shared memory. It changes nothing.

    On a machine that has joined a platform it checks the state folder of `swell node`, and its lease. Exit
    status 1: a check failed. The platform may be running.
    """
    _print_results(_examined(state), json)


def _print_results(findings: list[Finding], json: bool) -> None:
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

    path, of_host = own_state(state).path, host_folder(state)
    is_host = read_record(of_host) is not None
    found = [about_folder(of_host), *host_findings(of_host)] if is_host else []
    if is_host and (path == of_host or not path.is_dir()):
        return found
    return [*examine(path), *(found or examine_machine(path))]


@described("""
file (argument): FILE
    A new file for the copy.
""")
def backup(file: Path, state: State = None) -> None:
    """Copy what a platform keeps, but for checkpoints and logs.

    These are the journal, users.json (roles, limits, quotas), options.json, webhooks.yaml and webhook-secret.
    The platform may be running. The copy holds secrets, so only you can read it.
    """
    from swell.store.copies import back_up

    folder = own_state(state)
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


@described("""
file (argument): COPY
    A copy written by `swell admin backup`, or the folder of `swell up --backup-to`.
""")
def restore(file: Path, state: State = None) -> None:
    """Restore the journal, and the files that a copy has besides. No daemon may run.

    All of the copy is checked before anything is replaced. What is replaced is kept under another name.
    Workers of a killed daemon may run: the next `swell up` takes them over. Of a folder the newest sound copy
    is restored, with the code of jobs.
    """
    from swell.store import copies

    folder = own_state(state)
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


# ---------------------------------------------------------------- a script
#: Exit status where a job of the script would be held, or the script fails.
HELD = 1

#: The end of a traceback in which an error of Swell's own is told.
_REFUSAL = re.compile(r"^swell\.train\.[\w.]+: ", re.MULTILINE)


@described("""
script (argument): SCRIPT
    A script, or PACKAGE.MODULE[:FUNCTION] of this folder.
arguments (argument): -- ARGUMENT
    Arguments of the script.
devices: DEVICE
    `auto` (default: a GPU if there is one), `cpu` or `cuda:N`.
""")
def check(script: str, arguments: list[str] | None = None, devices: str = "auto", json: Json = False) -> None:
    """Check whether a script gives the same result at any number of workers, without a platform.

    Runs its first steps on one worker and as two, as the trial run of a job does. Exit status 0: a job of it
    would not be limited to one worker; 1: it would be, or the script failed.
    """
    from swell.api import fields
    from swell.executors.local.script_check import check_script

    node = node_of_devices(devices)
    if not fields.ENTRY.fullmatch(script) or os.path.isfile(script):
        fields.check_files(path := os.path.abspath(script), os.getcwd(), "")
        fields.check_source(path, is_live=True)
    checked = check_script(script, arguments or [], next(iter(node.bindings.values())))
    if json:
        print_json(checked)
    elif checked.failure:
        warn(_why_unchecked(script, checked.failure))
    else:
        _print_findings(checked.findings)
    if checked.failure or any(finding.holds for finding in checked.findings):
        raise typer.Exit(HELD)


def _why_unchecked(script: str, failure: str) -> str:
    """Return why nothing was compared, with the traceback where it says more than one place in the script."""
    is_refusal = _REFUSAL.search(failure) is not None
    why = failure_sentence(failure)
    told = f"{script} {'is to be changed' if is_refusal else 'was not checked'}: {why}"
    is_all = is_refusal or failure.count('  File "') == 1 or failure.strip().endswith(why)
    return told if is_all and not why.endswith("...") else f"{told}\n\n{failure.strip()}"


def _print_findings(findings: Sequence[ScriptFinding]) -> None:
    from swell.script_facts import is_unchecked

    if not findings:
        print("OK: same result on 1 and 2 workers")
        return
    rows = [
        (
            "differs" if finding.holds else "not checked" if is_unchecked(finding.name) else "known",
            finding.name,
            f"{finding.place.removeprefix(os.getcwd() + os.sep)}\n{finding.text}".strip(),
        )
        for finding in findings
    ]
    print_table(("", "", ""), rows)
    names = [finding.name for finding in findings if finding.holds]
    if names:
        accepting = " ".join(f"--accept-differences {name}" for name in names)
        print(f"\na job of this script is limited to 1 worker, unless it is submitted with {accepting}")
    else:
        print("\nOK: none of these limits a job of this script")
