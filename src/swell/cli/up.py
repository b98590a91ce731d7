"""`swell up`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.errors import InvalidOption
from swell.cli.options import State

if TYPE_CHECKING:
    from swell.assemble import PlatformOptions
    from swell.cli.remembered import Choice
    from swell.store.folder import StateFolder


def up(
    state: State = None,
    devices: Annotated[
        str | None,
        typer.Option(
            metavar="DEVICES",
            help="auto, cpu, cpu:N, cuda, cuda:N, or paced devices, which train for real at "
            "a fixed speed: paced:DEVICES@SAMPLES_PER_S, "
            "paced:NODESxDEVICES@SAMPLES_PER_S; none: other machines bring all. Default: previous "
            "value, else auto.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Scheduling policy. Default: previous value, else elasticflow."),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Control API port on 127.0.0.1; 0 picks a free one. Default: no port, only "
            "the Unix socket in the state folder.",
            show_default=False,
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            help="Port on 127.0.0.1 for Prometheus: GET /metrics, with the token in `metrics-token` of the "
            "state folder; 0 picks a free one. Default: none.",
            show_default=False,
        ),
    ] = None,
    preload: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Module to import once for all workers before they start; may be repeated. "
            "Default: previous value; '': none.",
        ),
    ] = None,
    cores: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            help="Cores of this machine that all workers share; with more devices than cores, by CPU share. "
            "Default: previous value, else all; 0: all.",
        ),
    ] = None,
    cpu_shares: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="What a job's CPU share means: weight (others get what it does not use), quota (a hard "
            "limit) or off. Default: previous value, else weight.",
        ),
    ] = None,
    containers: Annotated[
        str | None,
        typer.Option(
            metavar="PROGRAM",
            help="What runs jobs that name an image: docker, podman, auto (Docker, else Podman) or off. "
            "Default: previous value, else auto.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS[:PORT]",
            help="Let other machines join at this address of this one (`swell node`); default port 7070. "
            "Default: previous value, else none can join; '': none.",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="IP address of this machine at which workers of other nodes reach its own. Default: "
            "previous value, else the address of --listen if that is one IP address; '': the default.",
        ),
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Serve other users of this machine (`swell users`) at a socket in this folder, which is for "
            "members of the folder's group. Default: previous value, else none; '': none.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="ENGINE",
            help="What brings machines: local (this one, and those that join) or ray (the nodes of a Ray "
            "cluster). Default: previous value, else local.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="With --engine ray: the cluster, as `ray.init` takes it, such as auto or 10.9.0.1:6379. "
            "Default: previous value, else auto.",
        ),
    ] = None,
    device_resource: Annotated[
        str | None,
        typer.Option(
            metavar="RESOURCE",
            help="With --engine ray: resource of which one unit is one device: GPU, CPU, auto (GPU if there "
            "is any, else CPU), or NAME=cpu, NAME=cuda, NAME=paced@RATE. Default: previous value, else auto.",
        ),
    ] = None,
    borrowed: Annotated[
        bool | None,
        typer.Option(
            "--borrowed/--owned",
            help="With --engine ray: whether nodes may be reclaimed at any second. Default: previous value, "
            "else owned.",
            show_default=False,
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting, such as ready_s=300 (see docs/reference/settings.md); "
            "may be repeated. Other settings keep their previous values; '' resets all.",
        ),
    ] = None,
    foreground: Annotated[
        bool,
        typer.Option("--foreground", help="Run in the foreground until Ctrl-C instead of in the background."),
    ] = False,
) -> None:
    """Start the platform, or continue a stopped one. Omitted options keep their previous values."""
    from swell.cli.remembered import EngineWords, choose
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    folder.check_owner()
    said = EngineWords(engine, address, device_resource, borrowed)
    choice = choose(
        folder, devices, policy, preload, set_, cores, cpu_shares, containers, listen, advertise, said, share
    )
    with choice.explained():
        made_of = _platform_options(folder, choice)
        _check_modules(choice.options.preload)
        _check_traces()
        _note_lacks()
        if foreground:
            _serve(made_of, port, metrics_port)
        else:
            _start(folder, choice, {"--port": port, "--metrics-port": metrics_port})


def _check_modules(modules: Iterable[str]) -> None:
    """Only the package `a` of `a.b` is looked for, which imports nothing. Raises InvalidOption."""
    for module in modules:
        package = module.partition(".")[0]
        if not package or find_spec(package) is None:
            raise InvalidOption(
                f"--preload: there is no module {module!r} for {sys.executable}; "
                "install it there, or name another"
            )


def _check_traces() -> None:
    """Raises InvalidOption."""
    from swell.live.tracing import choice

    if fault := choice.fault(os.environ):
        raise InvalidOption(f"{fault}; correct it, or unset it")


def _note_lacks() -> None:
    """No errors: jobs may name another interpreter, and the environment may be meant for other programs."""
    from swell.api.intake import lack_of_torch
    from swell.live.tracing import choice

    for lack in filter(None, (lack_of_torch(), choice.note(os.environ))):
        print(f"note: {lack}", file=sys.stderr)


def _start(folder: StateFolder, choice: Choice, ports: Mapping[str, int | None]) -> None:
    from swell.cli.launch import has_devices, launch
    from swell.cli.nodes import number_of_cores
    from swell.model.share_mode import ABOUT_PROMISES, ABOUT_SHARES

    is_ready = has_devices(choice.options.devices, choice.options.cores)
    given = [word for name, port in ports.items() if port is not None for word in (name, str(port))]
    with launch(folder, [*choice.words, *given], is_ready) as client:
        cluster = client.cluster()
        kinds = ", ".join(sorted({node.kind for node in cluster.nodes}))
        cores = sum(node.cores for node in cluster.nodes if node.cores is not None)
        shared = f" on {number_of_cores(cores)}" if cores else ""
        devices = f"{cluster.num_devices} devices ({kinds})" if kinds else "no devices yet"
        print(f"platform is up: {devices}{shared}, policy {cluster.policy}")
        if choice.remembered:
            print(f"as last time: {', '.join(choice.remembered)}")
        where = f", {client.endpoint.url}" if client.endpoint.url else ""
        print(f"state {folder.path}, pid {client.endpoint.pid}{where}")
        if metrics_url := client.endpoint.metrics_url:
            print(f"metrics {metrics_url}, token in {folder.metrics_token}")
        for about in (ABOUT_SHARES, ABOUT_PROMISES):
            if why := cluster.warnings.get(about):
                print(f"note: {why}", file=sys.stderr)
        if choice.ray is not None:
            print(f"Ray at {choice.ray.address}: a host is started on each node; see `swell nodes`")
        elif choice.listen:
            _print_how_to_join(folder)


def _print_how_to_join(folder: StateFolder) -> None:
    """With a token, of which there is one from the first time on."""
    from swell.cli.tokens import ensure_first_token

    address, path = ensure_first_token(folder)
    print(f"hosts join with: swell node --join {address} --token-file {path.name}")
    print(f"the token is in {path}: copy it to each host; who has it can join")


def _platform_options(folder: StateFolder, choice: Choice) -> PlatformOptions:
    """Raises InvalidOption."""
    from swell.assemble import PlatformOptions

    return PlatformOptions(
        state_dir=folder.path,
        devices=choice.options.devices,
        policy=choice.options.policy,
        preload=choice.options.preload,
        settings=choice.settings(),
        sharing=choice.sharing,
        containers=choice.containers,
        listen=choice.listen,
        advertise=choice.advertise,
        share=choice.options.share,
        ray=choice.ray,
    )


def _serve(made_of: PlatformOptions, port: int | None, metrics_port: int | None) -> None:
    from swell.api.daemon import serve

    serve(made_of, port, metrics_port)
