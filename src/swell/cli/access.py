"""`swell admin access`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.options import Json, State
from swell.cli.output import print_json, print_table
from swell.cli.users import access_log_of, own_folder

if TYPE_CHECKING:
    from swell.api.access_log import AccessEntry

#: Lines shown unless more are asked for.
SHOWN = 50


def access(
    user: Annotated[str | None, typer.Option(metavar="NAME", help="Only what this user did.")] = None,
    refused: Annotated[bool, typer.Option("--refused", help="Only what was refused.")] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Only later than this: 2h for two hours ago, or 2030-01-31T18:00:00."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="The newest N lines; 0: all.")] = SHOWN,
    state: State = None,
    json: Json = False,
) -> None:
    """Show who changed what, and what was refused, on a platform with users besides its owner."""
    from swell.cli.selection import parse_since

    now_s = time.time()
    since_s = parse_since(since)(now_s)
    found = [
        entry
        for entry in access_log_of(own_folder(state)).entries()
        if (user is None or entry.user == user)
        and (since_s is None or entry.at_s >= since_s)
        and not (refused and entry.status < 400)
    ]
    chosen = found[-limit:] if limit else found
    if json:
        print_json(chosen)
    elif chosen:
        rows = [_row(entry, now_s) for entry in chosen]
        print_table(("AT", "USER", "ROLE", "DID", "ABOUT", "STATUS"), rows)
    else:
        print("nothing is logged; the log begins with the first user (`swell admin users add`)")


def _row(entry: AccessEntry, now_s: float) -> tuple[str, ...]:
    from swell.cli.clock import clock

    return (
        clock(entry.at_s, now_s),
        entry.user or "(no valid token)",
        entry.role or "-",
        entry.operation or "-",
        entry.about or "-",
        str(entry.status),
    )
