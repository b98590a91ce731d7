"""`swell admin users`: who may use a platform besides its owner."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.role import Role
from swell.cli.options import Json, State, has_subcommand
from swell.cli.output import clock, print_json, print_table

if TYPE_CHECKING:
    from swell.store.folder import StateFolder

app = typer.Typer(name="users", rich_markup_mode=None, add_completion=False)

UserName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]


@app.callback(invoke_without_command=True)
def list_users(context: typer.Context, state: State = None, json: Json = False) -> None:
    """List the users besides the owner, with role and tenant. Their tokens are kept nowhere."""
    if has_subcommand(context, state, json):
        return
    from swell.api.user_list import UserList

    users = UserList(own_folder(state).path).users()
    shown = [(name, user.role, user.tenant, user.added_s) for name, user in users.items()]
    if json:
        print_json([dict(zip(("name", "role", "tenant", "added_s"), one, strict=True)) for one in shown])
    elif shown:
        now_s = time.time()
        rows = [(name, role, tenant or "-", clock(at_s, now_s)) for name, role, tenant, at_s in shown]
        print_table(("USER", "ROLE", "TENANT", "ADDED"), rows)
    else:
        print("no users besides you; add one with `swell admin users add NAME --role ROLE`")


@app.command()
def add(
    name: UserName,
    role: Annotated[
        str,
        typer.Option(
            metavar="ROLE",
            help="What the user may do: view (see everything), submit (also submit, cancel, retry and change "
            "deadlines of jobs of one tenant) or operate (everything).",
        ),
    ],
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="With role submit: whose jobs.")
    ] = None,
    state: State = None,
) -> None:
    """Add a user and print their token, once: it is kept nowhere."""
    from swell.api.fields import formed
    from swell.api.user_list import UserList

    known_role, its_tenant = _role(role), formed("tenant", tenant)
    folder = own_folder(state)
    folder.create()
    token = UserList(folder.path).add(name, known_role, its_tenant)
    note_access(folder, "users add", name)
    print(token)
    print(f"{name} sets the environment variable SWELL_TOKEN to this token", file=sys.stderr)


@app.command()
def remove(name: UserName, state: State = None) -> None:
    """End a user's token and sessions, from the next request on. Their jobs go on."""
    from swell.api.user_list import UserList

    folder = own_folder(state)
    UserList(folder.path).remove(name)
    note_access(folder, "users remove", name)
    print(f"user {name} is removed; jobs that they have submitted go on")


def own_folder(state: Path | None) -> StateFolder:
    """That of a platform, up or not, which is the caller's."""
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    folder.check_owner()
    return folder


def note_access(folder: StateFolder, operation: str, about: str) -> None:
    """Log what the owner did by a command about users."""
    from swell.api.user_list import OWNER, AccessEntry, AccessLog

    role = OWNER.role.word
    entry = AccessEntry(
        at_s=time.time(), user=OWNER.name, role=role, operation=operation, about=about, status=200
    )
    AccessLog(folder.path).append(entry)


def _role(text: str) -> Role:
    words = {role.word: role for role in Role}
    if text not in words:
        raise typer.BadParameter(f"--role: {text!r} is not known; choose from {', '.join(words)}")
    return words[text]
