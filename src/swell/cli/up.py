"""`swell up`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from swell.api.errors import InvalidOption
from swell.cli.engine_options import options_of_engines
from swell.cli.option_groups import with_groups
from swell.cli.options import HelpAll, State
from swell.cli.up_options import Foreground, UpOptions

if TYPE_CHECKING:
    from swell.cli.remembered import ChosenOptions
    from swell.platform_options import PlatformOptions
    from swell.store.folder import StateFolder

OfEngines = Annotated[dict[str, Any], options_of_engines([field.name for field in fields(UpOptions)])]


@with_groups
def up(
    options: UpOptions,
    of_engine: OfEngines,
    state: State = None,
    foreground: Foreground = False,
    help_all: HelpAll = False,
) -> None:
    """Start the platform, or continue a stopped one. Omitted options keep their previous values."""
    from swell.cli.remembered import choose
    from swell.store.folder import StateFolder

    folder = StateFolder(state)
    folder.check_owner()
    choice = choose(folder, options, of_engine)
    _check_metrics_address(options)
    with choice.explained():
        made_of = _platform_options(folder, choice)
        _check_modules(choice.options.preload)
        _note_lack_of_torch()
        if foreground:
            _serve(made_of, options)
        else:
            given = {"--port": options.port, "--metrics-port": options.metrics_port}
            _start(folder, choice, {**given, "--metrics-address": options.metrics_address})


def _check_metrics_address(options: UpOptions) -> None:
    """Raises InvalidOption."""
    from ipaddress import ip_address

    if options.metrics_address is None:
        return
    if options.metrics_port is None:
        raise InvalidOption("--metrics-address goes with --metrics-port PORT: say at which port")
    try:
        ip_address(options.metrics_address)
    except ValueError:
        raise InvalidOption(
            f"--metrics-address {options.metrics_address} is no IP address; write one of this machine's, or "
            "0.0.0.0 for all of them"
        ) from None


def _check_modules(modules: Iterable[str]) -> None:
    """Only the package `a` of `a.b` is looked for, which imports nothing. Raises InvalidOption."""
    for module in modules:
        package = module.partition(".")[0]
        if not package or find_spec(package) is None:
            raise InvalidOption(
                f"--preload: there is no module {module!r} for {sys.executable}; "
                "install it there, or name another"
            )


def _note_lack_of_torch() -> None:
    """No error: jobs may name another interpreter."""
    from swell.api.installed import lack_of_torch

    if lack := lack_of_torch():
        print(f"note: {lack}", file=sys.stderr)


def _start(folder: StateFolder, choice: ChosenOptions, ports: Mapping[str, int | str | None]) -> None:
    from swell.cli.launch import has_devices, launch
    from swell.cli.nodes import number_of_cores
    from swell.model.share_mode import ABOUT_PROMISES, ABOUT_SHARES

    is_ready = has_devices(choice.options.devices, choice.options.cores, choice.options.rack)
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
        if told := choice.settings().without_effect(choice.options.policy):
            print(f"note: {told}", file=sys.stderr)
        for about in (ABOUT_SHARES, ABOUT_PROMISES):
            if why := cluster.warnings.get(about):
                print(f"note: {why}", file=sys.stderr)
        engine = choice.engine
        if engine.about:
            print(engine.about)
        if engine.trust:
            print(f"note: {engine.trust}", file=sys.stderr)
        if engine.is_joined_by_hand and choice.listen:
            _print_how_to_join(folder)


def _print_how_to_join(folder: StateFolder) -> None:
    """Print how hosts join, with the file of a token; the first token is made if there is none yet."""
    from swell.cli.tokens import ensure_first_token

    address, path = ensure_first_token(folder)
    print(f"hosts join with: swell node --join {address} --token-file {path.name}")
    print(f"the token is in {path}: copy it to each host; who has it can join")


def _platform_options(folder: StateFolder, choice: ChosenOptions) -> PlatformOptions:
    """Raises InvalidOption."""
    from swell.platform_options import PlatformOptions

    return PlatformOptions(
        state_dir=folder.path,
        devices=choice.options.devices,
        rack=choice.options.rack,
        policy=choice.options.policy,
        preload=choice.options.preload,
        settings=choice.settings(),
        sharing=choice.sharing,
        containers=choice.containers,
        listen=choice.listen,
        advertise=choice.advertise,
        backup_to=choice.backup_to,
        backup_every_s=choice.backup_every_s,
        share=choice.options.share,
        engine=choice.engine,
    )


def _serve(made_of: PlatformOptions, options: UpOptions) -> None:
    from swell.api.daemon import serve

    serve(made_of, options.port, options.metrics_port, options.metrics_address)
