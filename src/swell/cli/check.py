"""`swell check`, which needs no platform."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import Json, node_of_devices
from swell.cli.output import print_json, print_table, warn
from swell.model.failure import failure_sentence

if TYPE_CHECKING:
    from swell.script_facts import ScriptFinding

#: Exit status where a job of the script would be held, or the script fails.
HELD = 1

#: The end of a traceback in which an error of Swell's own is told.
_REFUSAL = re.compile(r"^swell\.train\.[\w.]+: ", re.MULTILINE)


def check(
    script: Annotated[
        str, typer.Argument(metavar="SCRIPT", help="A script, or PACKAGE.MODULE[:FUNCTION] of this folder.")
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="-- ARGUMENT", help="Arguments of the script.")
    ] = None,
    devices: Annotated[
        str,
        typer.Option(metavar="DEVICE", help="`auto` (default: a GPU if there is one), `cpu` or `cuda:N`."),
    ] = "auto",
    json: Json = False,
) -> None:
    """Check whether a script gives the same result at any number of workers, without a platform.

    Runs its first steps on one worker and as two, as the trial run of a job does. Exit status 0: a job of it
    would not be limited to one worker; 1: it would be, or the script failed.
    """
    from swell.api import fields
    from swell.executors.local.script_check import check_script

    node = node_of_devices(devices)
    if not fields.ENTRY.fullmatch(script) or os.path.isfile(script):
        fields.check_source(fields.entry(os.path.abspath(script), None), is_live=True)
    checked = check_script(script, arguments or [], next(iter(node.bindings.values())))
    if json:
        print_json(checked)
    elif checked.failure:
        warn(_told(script, checked.failure))
    else:
        _print_findings(checked.findings)
    if checked.failure or any(finding.holds for finding in checked.findings):
        raise typer.Exit(HELD)


def _told(script: str, failure: str) -> str:
    """Return why nothing was compared, with the traceback where it says more than one place in the script."""
    is_refusal = _REFUSAL.search(failure) is not None
    why = failure_sentence(failure)
    told = f"{script} {'is to be changed' if is_refusal else 'was not checked'}: {why}"
    is_all = is_refusal or failure.count('  File "') == 1 or failure.strip().endswith(why)
    return told if is_all and not why.endswith("...") else f"{told}\n\n{failure.strip()}"


def _short(place: str) -> str:
    """Return the place as seen from this folder."""
    return place.removeprefix(os.getcwd() + os.sep)


def _print_findings(findings: Sequence[ScriptFinding]) -> None:
    from swell.script_facts import is_unchecked

    if not findings:
        print("OK: same result on 1 and 2 workers")
        return
    rows = [
        (
            "differs" if finding.holds else "not checked" if is_unchecked(finding.name) else "known",
            finding.name,
            f"{_short(finding.place)}\n{finding.text}".strip(),
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
