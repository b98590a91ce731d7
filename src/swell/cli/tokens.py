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
    from swell.executors.remote.join_tokens import TokenList
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
    from swell.store.folder import StateFolder

    with _tokens_of(StateFolder(state)) as tokens:
        names = tokens.names
    if json:
        print_json(names)
        return
    rows = [(name, "revoked" if is_revoked else "in force") for name, is_revoked in names.items()]
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
    from swell.store.folder import StateFolder

    with _tokens_of(StateFolder(state)) as tokens:
        tokens.revoke(name)
    print(f"join token {name!r} is revoked")


def ensure_first_token(folder: StateFolder) -> tuple[str, Path]:
    """Where hosts join, and the file of a token for them; made if no token was ever given out.

    Raises:
        InvalidOption: no agent runs at which hosts join, or the file cannot be written.
    """
    path = folder.path / f"{FIRST}.join-token"
    with _tokens_of(folder) as tokens:
        is_there = FIRST in tokens.names
    return _address(folder) if is_there else _add(folder, FIRST, path), path


def _add(folder: StateFolder, name: str, path: Path) -> str:
    """Where hosts join with it."""
    from swell.executors.remote.certificate import CERTIFICATE_FILE, fingerprint_of
    from swell.executors.remote.join_tokens import write_token

    address = _address(folder)
    with _tokens_of(folder) as tokens:
        token = tokens.add(name, fingerprint_of(folder.path / CERTIFICATE_FILE))
        try:
            write_token(path, token)
        except OSError as error:
            tokens.revoke(name)
            raise InvalidOption(
                f"{path} cannot be written ({error.strerror}), so join token {name!r} was revoked: choose "
                "another file with --out, and another name"
            ) from error
    return address


def _address(folder: StateFolder) -> str:
    """Return where hosts join. Raises InvalidOption: nowhere."""
    from swell.executors.local.launch import find_agent

    agent = find_agent(folder.path)
    if agent is None or not agent.hosts:
        raise InvalidOption(
            f"no host can join the platform of {folder.path}: start it with `swell up --listen ADDRESS`, "
            "after `swell down` if it is up"
        )
    return agent.hosts


@contextmanager
def _tokens_of(folder: StateFolder) -> Iterator[TokenList]:
    """Raises InvalidOption, with the reason of what cannot be."""
    from swell.executors.local.agent.door import DoorError
    from swell.executors.remote.join_tokens import TokenList

    try:
        yield TokenList(folder.path)
    except DoorError as error:
        raise InvalidOption(str(error)) from error
    except OSError as error:
        raise InvalidOption(
            f"the join tokens of {folder.path} cannot be changed ({error.strerror}); make room on its disk, "
            "and look whether it is the state folder of a platform"
        ) from error
