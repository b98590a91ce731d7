"""`swell up`, with the options that engines declare."""

from __future__ import annotations

import inspect
import os
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, Any

import msgspec
import typer

from swell.api.errors import InvalidOption
from swell.api.installed import lack_of_torch
from swell.cli.options import (
    HelpAll,
    OptionGroup,
    State,
    declared_options,
    described,
    own_state,
    show_options,
    with_groups,
    words_behind,
)
from swell.executors.engine import Engine, OptionValue, flags_of, words_of
from swell.executors.engines import ENGINES, engine_type
from swell.model.quantities import format_duration
from swell.platform_options import PLATFORM_OPTIONS, PlatformOptions
from swell.plugins import meaning
from swell.settings import parse_setting, spell
from swell.store.errors import StateError
from swell.store.folder import StateFolder, named_user

#: Options of `swell up` that no field of its own options is named for.
RESERVED = frozenset({"set", "state", "foreground", "help"})


def options_of_engines(taken: Collection[str]) -> OptionGroup:
    """The options of all engines, given by name, None if unsaid. One whose options are taken is refused."""
    found: dict[str, list[type[Engine]]] = {}
    for name, kind in list(ENGINES.items()):
        options = kind.__struct_fields__
        shared = [one for one in options if one in found]
        clashes = [one for one in shared if flags_of(found[one][0], one) != flags_of(kind, one)]
        clashes += [one for one in options if one in {*taken, *RESERVED}]
        if clashes:
            ENGINES.refuse(name, f"`swell up` has another option {clashes[0]!r}; it has to be renamed")
            continue
        for option in options:
            found.setdefault(option, []).append(kind)
    return OptionGroup(tuple(_parameter(option, kinds) for option, kinds in found.items()), dict)


_BROUGHT = ", ".join(f"{name} ({kind.brings})" for name, kind in ENGINES.items())
ABOUT_ENGINES = (
    f"What brings machines: {_BROUGHT}. `--engine ENGINE --help` lists options of one. Default: local."
)


def show_options_of_engine(context: typer.Context, name: str | None) -> str | None:
    """Have `--help` behind `--engine NAME` list the options of this engine."""
    kind = dict(ENGINES.items()).get(name or "")
    if kind is not None:
        show_options(context, kind.__struct_fields__.__contains__)
    return name


def _parameter(option: str, kinds: list[type[Engine]]) -> inspect.Parameter:
    flags, told = flags_of(kinds[0], option), dict[str, list[str]]()
    for engine in kinds:
        default = getattr(engine(), option)
        word = (default if default != "" else "none") if len(flags) == 1 else flags[not default][2:]
        text = meaning(engine, option).description
        told.setdefault(f"{text} Default: {word}.", []).append(engine.name)
    help_text = " ".join(f"With --engine {' or '.join(names)}: {text}" for text, names in told.items())
    kind: Any = bool if len(flags) == 2 else str
    metavar = None if kind is bool else (meaning(kinds[0], option).extra or {}).get("metavar", option.upper())
    made = typer.Option("/".join(flags), metavar=metavar, help=help_text, show_default=False, hidden=True)
    annotation = Annotated[kind | None, made]
    return inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


DEFAULTS = PlatformOptions()


Said = Annotated[dict[str, Any], declared_options(PlatformOptions, PLATFORM_OPTIONS)]
#: Options that no field of `PlatformOptions` declares.
OTHERS = ("port", "metrics_port", "metrics_address", "engine")
OfEngines = Annotated[dict[str, Any], options_of_engines([*PlatformOptions.__struct_fields__, *OTHERS])]
EngineName = Annotated[
    str | None,
    typer.Option(metavar="ENGINE", is_eager=True, callback=show_options_of_engine, help=ABOUT_ENGINES),
]


@with_groups
@described("""
port: PORT
    Control API port on 127.0.0.1; 0 picks a free one. Default: no port, only the Unix socket in the state
    folder.
metrics_port: PORT
    Port for Prometheus, on 127.0.0.1: GET /metrics, with the token in `metrics-token` of the state folder; 0
    picks a free one. Default: none.
metrics_address (rare): ADDRESS
    IP address of this machine at which --metrics-port is, for a Prometheus that is not on it: 0.0.0.0 for all
    of them. Metrics and their token go unencrypted. Default: 127.0.0.1.
set_ (--set): NAME=VALUE
    Change a setting, such as ready_s=300 (a wrong name prints all); may be repeated. Other settings keep
    their previous values; '' resets all.
foreground:
    Run in the foreground until Ctrl-C instead of in the background.
""")
def up(
    context: typer.Context,
    said: Said,
    of_engine: OfEngines,
    port: int | None = None,
    metrics_port: int | None = None,
    metrics_address: str | None = None,
    engine: EngineName = None,
    set_: list[str] | None = None,
    state: State = None,
    foreground: bool = False,
    help_all: HelpAll = False,
) -> None:
    """Start the platform, or continue a stopped one.

    Omitted options keep their previous values, and '' stands for the default.
    """
    folder = own_state(state)
    if (
        group := said.get("accounts")
    ) and os.geteuid() == 0:  # only what is said now, and no remembered group
        from swell.executors.local.accounts.client import become_owner

        become_owner(folder.path, group)  # root leaves its rights to the helper process
    folder.check_owner()
    _check_metrics_address(metrics_port, metrics_address)
    options, remembered = choose(folder, {**said, "engine": engine, "settings": set_}, of_engine)
    options.check()
    _check_helper(options.accounts, folder)
    is_as_before = bool(said.get("accounts")) and options == _last(folder)
    if is_as_before and (running := folder.read_endpoint()) and running.is_alive:
        print("the platform is up, and so is the process of root that runs jobs as users")
        return
    _check_modules(options.preload)
    if lack := lack_of_torch():  # no error: jobs may name another interpreter
        print(f"note: {lack}", file=sys.stderr)
    if foreground:
        from swell.api.daemon import serve

        serve(folder, options, port, metrics_port, metrics_address)
    else:
        _start(folder, options, remembered, words_behind(context, "up"))


def choose(
    folder: StateFolder, said: Mapping[str, Any], of_engine: Mapping[str, OptionValue | None]
) -> tuple[PlatformOptions, list[str]]:
    """The options, and those of them that were not given this time: `--devices cpu:4` each.

    What was not said is as last time. An empty setting forgets those of last time.

    Args:
        said: fields of `PlatformOptions`; None: it was not said; settings as NAME=VALUE.
        of_engine: options of any engine, by name; an empty text is the default.

    Raises:
        InvalidOption: a setting is none, or what was said is of another engine.
    """
    last, given = _last(folder), {name: value for name, value in said.items() if value is not None}
    texts = given.pop("settings", [])
    settings = dict(parse_setting(text) for text in texts if text)
    kind = engine_type(given.get("engine", last.engine))
    of_this = _of_engine(kind, of_engine)
    of_last = last.engine_options if kind.name == last.engine else {}
    before = engine_type(last.engine) if last.engine in ENGINES else kind
    if last.devices == before.devices:  # which was not said
        given.setdefault("devices", kind.devices)
    options = msgspec.structs.replace(
        last,
        **given,
        settings={**({} if "" in texts else last.settings), **settings},
        engine_options={name: value for name, value in {**of_last, **of_this}.items() if value != ""},
    )
    unsaid = [name for name in last.__struct_fields__ if name not in (*given, "settings", "engine_options")]
    changed = [name for name in unsaid if getattr(last, name) != getattr(DEFAULTS, name)]
    remembered = [word for name in changed for word in _words(name, getattr(last, name))]
    kept = {name: value for name, value in of_last.items() if name not in of_this}
    remembered += [shlex.join(words_of(kind, name, value)) for name, value in kept.items()]
    kept_settings = {name: value for name, value in options.settings.items() if name not in settings}
    remembered += [f"--set {name}={spell(value)}" for name, value in kept_settings.items()]
    return options, remembered


def _words(name: str, value: Any) -> list[str]:
    """How a value is said on a command line."""
    if name == "backup_every":
        value = format_duration(value)
    values = value if isinstance(value, tuple) else (value,)
    flag = f"--{name.replace('_', '-')}"
    return [f"{flag} {one:g}" if isinstance(one, float) else f"{flag} {one}" for one in values]


def _of_engine(kind: type[Engine], of_engine: Mapping[str, OptionValue | None]) -> dict[str, OptionValue]:
    """Those that were given. Raises InvalidOption: one is another engine's."""
    given = {option: value for option, value in of_engine.items() if value is not None}
    for option in [option for option in given if option not in kind.__struct_fields__]:
        value = given.pop(option)
        owners = [other for other in ENGINES.values() if option in other.__struct_fields__]
        flag = words_of(owners[0], option, value)[0]
        if value is not False:
            names = " or ".join(f"`--engine {owner.name}`" for owner in owners)
            raise InvalidOption(f"{flag} is about {names}: add that, or leave {flag} out")
    return given


def _last(folder: StateFolder) -> PlatformOptions:
    try:
        return folder.read_options(PlatformOptions) or DEFAULTS
    except StateError as error:
        print(f"swell: {error}; options that are not given are the defaults", file=sys.stderr)
        return DEFAULTS


def _check_helper(group: str, folder: StateFolder) -> None:
    """Raises InvalidOption: no helper process would start the jobs of users."""
    from swell.executors.local.accounts.client import is_there

    if group and not is_there():
        raise InvalidOption(
            f"--accounts {group}: only root can start the process that runs jobs as users; run `sudo swell "
            f"up --accounts {group} --state {folder.path}`, or end that with --accounts ''"
        )


def _check_metrics_address(port: int | None, address: str | None) -> None:
    """Raises InvalidOption."""
    from ipaddress import ip_address

    if address is None:
        return
    if port is None:
        raise InvalidOption("--metrics-address goes with --metrics-port PORT: say at which port")
    try:
        ip_address(address)
    except ValueError:
        raise InvalidOption(
            f"--metrics-address {address} is no IP address; write one of this machine's, or 0.0.0.0 for all "
            "of them"
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


def _start(
    folder: StateFolder, options: PlatformOptions, remembered: Sequence[str], words: Sequence[str]
) -> None:
    """Start the platform in the background, by the same command line, and say what is up."""
    from swell.cli.launch import has_devices, launch
    from swell.cli.nodes import number_of_cores
    from swell.model.target import ABOUT_PROMISES, ABOUT_SHARES

    is_ready = has_devices(options.devices, options.sharing.cores, options.rack)
    with launch(folder, words, is_ready) as client:
        cluster = client.cluster()
        kinds = ", ".join(sorted({node.kind for node in cluster.nodes}))
        cores = sum(node.cores for node in cluster.nodes if node.cores is not None)
        shared = f" on {number_of_cores(cores)}" if cores else ""
        devices = f"{cluster.num_devices} devices ({kinds})" if kinds else "no devices yet"
        print(f"platform is up: {devices}{shared}, policy {cluster.policy}")
        if remembered:
            print(f"as last time: {', '.join(remembered)}")
        where = f", {client.endpoint.url}" if client.endpoint.url else ""
        print(f"state {folder.path}, pid {client.endpoint.pid}{where}")
        if metrics_url := client.endpoint.metrics_url:
            print(f"metrics {metrics_url}, token in {folder.metrics_token}")
        if told := options.made_settings.without_effect(options.policy):
            print(f"note: {told}", file=sys.stderr)
        for about in (ABOUT_SHARES, ABOUT_PROMISES):
            if why := cluster.warnings.get(about):
                print(f"note: {why}", file=sys.stderr)
        _tell_whose_jobs_are(options)
        _tell_of_engine(folder, options)
        if at := client.endpoint.network_url:
            print(f"users on other machines: swell login {at}, fingerprint {client.endpoint.fingerprint}")


def _tell_whose_jobs_are(options: PlatformOptions) -> None:
    account = named_user(os.geteuid())
    if options.accounts:
        print(
            f"jobs run as who submitted them, a member of {options.accounts}; those of the owner as {account}"
        )
    elif options.share:
        print(f"all jobs run as {account}")


def _tell_of_engine(folder: StateFolder, options: PlatformOptions) -> None:
    engine = options.made_engine
    if engine.about:
        print(engine.about)
    if engine.trust:
        print(f"note: {engine.trust}", file=sys.stderr)
    if engine.is_joined_by_hand and options.listen:
        from swell.cli.tokens import ensure_first_token

        address, path = ensure_first_token(folder)
        print(f"hosts join with: swell node --join {address} --token-file {path.name}")
        print(f"the token is in {path}: copy it to each host; who has it can join")
