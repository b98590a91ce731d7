"""`swell up` and `swell down`."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.errors import ApiError
from swell.cli.options import State

if TYPE_CHECKING:
    from swell.api.client import Client
    from swell.cli.remembered import Choice
    from swell.store.folder import LastOptions, StateFolder

#: `down` waits so long for checkpoints to be written and processes to end.
END_WITHIN_S = 120.0


def up(
    state: State = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICES",
            help="auto, cpu, cpu:N, cuda, cuda:N, or devices that train but take their time: "
            "paced:DEVICES@SAMPLES_PER_S, paced:NODESxDEVICES@SAMPLES_PER_S. "
            "Default: as last time, else auto.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Who gets how much. Default: as last time, else elasticflow."),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="PORT", help="Of the control API on 127.0.0.1; 0: any that is free.")
    ] = 0,
    preload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Import this for all workers beforehand; may be repeated. Default: as last time; '': none.",
        ),
    ] = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay, and end with Ctrl-C, instead of going on unseen.")
    ] = False,
) -> None:
    """Start the platform, or continue where it was. What is not said is as it was last time."""
    from swell.cli.remembered import choose
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    choice = choose(folder, devices, policy, preload)
    with choice.explained():
        if foreground:
            _serve(folder, choice.options, port)
        else:
            _start(folder, choice, port)


def _start(folder: StateFolder, choice: Choice, port: int) -> None:
    from swell.cli.launch import has_devices, launch

    is_ready = has_devices(choice.options.devices)
    with launch(folder, [*choice.words, "--port", str(port)], is_ready) as client:
        cluster = client.cluster()
        kinds = ", ".join(sorted({node.kind for node in cluster.nodes}))
        print(f"platform is up: {cluster.num_devices} devices ({kinds}), policy {cluster.policy}")
        if choice.remembered:
            print(f"as last time: {', '.join(choice.remembered)}")
        print(f"state {folder.path}, pid {client.endpoint.pid}, {client.endpoint.url}")


def _serve(folder: StateFolder, options: LastOptions, port: int) -> None:
    from swell.api.daemon import serve
    from swell.assemble import PlatformOptions

    made_of = PlatformOptions(
        state_dir=folder.path, devices=options.devices, policy=options.policy, preload=options.preload
    )
    serve(made_of, port)


def down(state: State = None) -> None:
    """Suspend every job and end the platform with all its processes."""
    from swell.api.client import NoPlatform, connect
    from swell.store.folder import StateFolder
    from swell.store.lock import StateLock

    folder = StateFolder(state)
    try:
        with connect(state) as client:
            pid: int | None = client.endpoint.pid
            _stop(client)
    except (NoPlatform, ProcessLookupError):  # it may end while we ask
        pid = None
    if pid is None and not folder.path.exists():
        print(f"nothing to stop: there is no state folder {folder.path}")
        return
    with StateLock(folder.lock):  # from here on no daemon runs, and none can start
        is_left = _stop_agent(folder)
    print(_farewell(folder, pid, is_left))


def _stop(client: Client) -> None:
    """Ask the daemon to end, and wait until its process has."""
    daemon = os.pidfd_open(client.endpoint.pid)
    try:
        client.stop()
        has_ended, _, _ = select.select([daemon], [], [], END_WITHIN_S)
    finally:
        os.close(daemon)
    if not has_ended:
        raise TimeoutError(
            f"the platform (pid {client.endpoint.pid}) has not ended after {END_WITHIN_S:g} s; "
            f"see {client.folder.log}"
        )


def _stop_agent(folder: StateFolder) -> bool:
    """End the agent of a platform that was killed. True if there was one."""
    from swell.executors.local.launch import AgentError, stop_agent

    try:
        return stop_agent(folder.path)
    except AgentError as error:
        raise ApiError(str(error)) from error


def _farewell(folder: StateFolder, pid: int | None, is_left: bool) -> str:
    if pid is not None:
        return f"stopped the platform (pid {pid}) of {folder.path}; `swell up` continues its jobs"
    if is_left:
        return f"stopped the workers that a killed platform had left running for {folder.path}"
    return f"nothing to stop: no platform is running for state folder {folder.path}"
