"""`swell tenants`: what the jobs of each tenant may take."""

from __future__ import annotations

from typing import Annotated

import typer

from swell.cli.options import Json, State
from swell.cli.output import print_json, print_table
from swell.cli.users import note_access, own_folder

app = typer.Typer(name="tenants", rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def list_tenants(context: typer.Context, state: State = None, json: Json = False) -> None:
    """List the tenants that have limits."""
    if context.invoked_subcommand is not None:
        if state is not None or json:
            raise typer.BadParameter(f"options come after {context.invoked_subcommand!r}")
        return
    from swell.api.user_list import UserList

    tenants = UserList(own_folder(state).path).tenants()
    if json:
        print_json(tenants)
    elif tenants:
        rows = [
            (name, _shown(limits.open_jobs), _shown(limits.submissions_per_hour))
            for name, limits in tenants.items()
        ]
        print_table(("TENANT", "OPEN JOBS", "SUBMISSIONS PER HOUR"), rows)
    else:
        print("no tenant has limits; give some with `swell tenants limit TENANT --open-jobs N`")


def _shown(limit: int | None) -> str:
    return "any" if limit is None else str(limit)


@app.command()
def limit(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="As jobs name it.")],
    open_jobs: Annotated[
        str | None,
        typer.Option(metavar="N", help="Most jobs that have not ended; any: no limit. Default: as before."),
    ] = None,
    per_hour: Annotated[
        str | None,
        typer.Option(metavar="N", help="Most submissions in any hour; any: no limit. Default: as before."),
    ] = None,
    state: State = None,
) -> None:
    """Limit what a tenant submits, from the next submission on. Jobs that it has go on."""
    from swell.api.fields import tenant as checked_tenant
    from swell.api.user_list import TenantLimits, UserList

    if open_jobs is None and per_hour is None:
        raise typer.BadParameter("give --open-jobs or --per-hour")
    folder, name = own_folder(state), checked_tenant(tenant)
    users = UserList(folder.path)
    before = users.limits_of(name)
    limits = TenantLimits(
        open_jobs=_parsed("--open-jobs", open_jobs, before.open_jobs, 0),
        submissions_per_hour=_parsed("--per-hour", per_hour, before.submissions_per_hour, 1),
    )
    folder.create()
    users.limit(name, limits)
    note_access(folder, "tenants limit", name)
    print(
        f"tenant {name}: {_shown(limits.open_jobs)} open jobs, "
        f"{_shown(limits.submissions_per_hour)} submissions per hour"
    )


#: More would be no limit, and its submissions of an hour are remembered.
MOST = 100_000


def _parsed(option: str, text: str | None, before: int | None, least: int) -> int | None:
    if text is None:
        return before
    if text == "any":
        return None
    if not text.isdecimal() or not least <= int(text) <= MOST:
        raise typer.BadParameter(f"{option}: {text!r} is not a number from {least} to {MOST}, nor `any`")
    return int(text)
