"""`swell admin tokens`: what lets other machines join."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.errors import InvalidOption
from swell.cli.options import Json, State
from swell.cli.output import print_json, print_table

if TYPE_CHECKING:
    from swell.store.folder import StateFolder

#: Of the token that `swell up --listen` makes.
FIRST = "first"

app = typer.Typer(name="tokens", rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def begin(context: typer.Context) -> None:
    """Join tokens, by which other machines join a platform."""
    if context.invoked_subcommand is None:
        print(context.get_help())


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token; each is used once.")]


@app.command("list")
def list_tokens(state: State = None, json: Json = False) -> None:
    """List the join tokens that were given out."""
    from swell.executors.local import token_orders
    from swell.store.folder import StateFolder

    with _explained():
        known = token_orders.list_tokens(StateFolder(state).path)
    if json:
        print_json(known.names)
        return
    rows = [(name, "revoked" if is_revoked else "in force") for name, is_revoked in known.names.items()]
    print_table(("TOKEN", "STATE"), rows)


@app.command()
def add(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="File to write it to. Default: NAME.join-token."),
    ] = None,
    state: State = None,
) -> None:
    """Write a new join token to a file that only you can read. It is kept nowhere else."""
    from swell.store.folder import StateFolder

    path = Path(f"{name}.join-token") if out is None else out
    if path.exists():
        raise InvalidOption(f"--out {path}: there is such a file; a token is written to a new one")
    address = _add(StateFolder(state), name, path)
    print(f"hosts join with: swell node --join {address} --token-file {path}")


@app.command()
def revoke(name: Name, state: State = None) -> None:
    """End a join token for good. Hosts that joined with it are cut off, and end their workers."""
    from swell.executors.local import token_orders
    from swell.store.folder import StateFolder

    with _explained():
        token_orders.revoke_token(StateFolder(state).path, name)
    print(f"join token {name!r} is revoked")


def ensure_first_token(folder: StateFolder) -> tuple[str, Path]:
    """Where hosts join, and the file of a token for them; made if no token was ever given out.

    Raises:
        InvalidOption: the agent does not answer, or the file cannot be written.
    """
    from swell.executors.local import token_orders

    path = folder.path / f"{FIRST}.join-token"
    with _explained():
        known = token_orders.list_tokens(folder.path)
    if FIRST in known.names:
        return known.address, path
    return _add(folder, FIRST, path), path


def _add(folder: StateFolder, name: str, path: Path) -> str:
    """Where hosts join with it."""
    from swell.executors.local import token_orders
    from swell.executors.remote.join_tokens import parse_token, write_token

    with _explained():
        added = token_orders.add_token(folder.path, name)
    try:
        write_token(path, parse_token(added.text))
    except OSError as error:
        with _explained():
            token_orders.revoke_token(folder.path, name)
        raise InvalidOption(
            f"{path} cannot be written ({error.strerror}), so join token {name!r} was revoked: choose "
            "another file with --out, and another name"
        ) from error
    return added.address


@contextmanager
def _explained() -> Iterator[None]:
    from swell.executors.local.launch import AgentError

    try:
        yield
    except AgentError as error:
        raise InvalidOption(str(error)) from error
