"""`swell node`, which joins a platform, and `swell admin tokens`, by which other machines may."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swell.api.errors import InvalidOption
from swell.cli.options import Json, State, declared_options, described, own_state, seconds, with_groups
from swell.cli.output import print_json, print_table
from swell.executors.node.options import HOST_OPTIONS, NodeOptions
from swell.model.quantities import span

if TYPE_CHECKING:
    from swell.executors.remote.join_tokens import TokenList
    from swell.store.folder import StateFolder

#: Of the token that `swell up --listen` makes.
FIRST = "first"

app = typer.Typer(name="tokens", rich_markup_mode=None, add_completion=False)


@app.callback(invoke_without_command=True)
def show_help(context: typer.Context) -> None:
    """Join tokens, by which other machines join a platform."""
    if context.invoked_subcommand is None:
        print(context.get_help())


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token; each is used once.")]


@app.command("list")
def list_tokens(state: State = None, json: Json = False) -> None:
    """List the join tokens that were given out."""

    with _tokens_of(own_state(state)) as tokens:
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

    path = Path(f"{name}.join-token") if out is None else out
    if path.exists():
        raise InvalidOption(f"--out {path}: there is such a file; a token is written to a new one")
    address = _add(own_state(state), name, path)
    print(f"hosts join with: swell node --join {address} --token-file {path}")


@app.command()
def revoke(name: Name, state: State = None) -> None:
    """End a join token for good. Hosts that joined with it are cut off, and end their workers."""

    with _tokens_of(own_state(state)) as tokens:
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


# ---------------------------------------------------------------- a machine that joins
Host = Annotated[dict[str, Any], declared_options(NodeOptions, HOST_OPTIONS)]


@with_groups
@described("""
leave: TIME
    Join nothing: have the `swell node` that runs here leave within this time, such as 30s. Workers move away
    meanwhile.
accounts: GROUP
    Run jobs of members of this group of the machine as these users. Root says so; the node goes on as the
    account that has its state folder. Default: jobs that run as users go to other nodes.
state: FOLDER
    State folder of this node. Default: that of a platform with `-node` behind its name.
""")
def node(
    options: Host, leave: str | None = None, accounts: str | None = None, state: Path | None = None
) -> None:
    """Let this machine run workers of a platform, in the foreground until Ctrl-C or SIGTERM.

    It joins again whenever the line breaks. Workers train on meanwhile, for as long as the lease of this
    machine lasts (by default 30 s).
    """
    folder = host_folder(state)
    if leave is not None:
        _leave(folder, seconds("leave", leave))
        return
    if not options.get("join") or not options.get("token_file"):
        raise InvalidOption(
            "--join and --token-file are both needed to join a platform: `swell up --listen` prints them"
        )
    if accounts:
        from swell.executors.local.accounts.client import become_owner

        become_owner(folder, accounts)
    sys.stdout.flush()
    os.execv(sys.executable, NodeOptions(**options).command(folder))  # noqa: S606


def host_folder(state: Path | None) -> Path:
    """State folder of a host. `state`: as it was chosen."""
    from swell.store.folder import default_path

    own = default_path(os.environ)
    return own.with_name(f"{own.name}-node") if state is None else state.expanduser().absolute()


def _leave(folder: Path, within_s: float) -> None:
    """Raises InvalidOption."""
    from swell.executors.node.state import HostStateError
    from swell.executors.node.withdrawal import order_leave

    try:
        order_leave(folder, within_s)
    except HostStateError as error:
        raise InvalidOption(f"--leave: {error}") from error
    except OSError as error:
        raise InvalidOption(
            f"--leave: the host process cannot be told ({error.strerror}); it belongs to another user, "
            "or the disk is full: send it SIGTERM instead, which kills its workers"
        ) from error
    print(f"this host leaves within {span(within_s)}, sooner if its workers have moved away")
