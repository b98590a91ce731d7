"""The daemon: a platform, its API, and the end of both."""

from __future__ import annotations

import ctypes
import gc
import logging
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

import msgspec

from swell.api.connections import HOST, ApiServer, PortHeld, bind
from swell.api.errors import ApiError, InvalidOption
from swell.api.intake import SubmissionCheck
from swell.api.job_file import load_addresses
from swell.api.page.page import Page
from swell.api.page.sessions import SessionList
from swell.api.prometheus import HOST_NAMES, create_metrics_app
from swell.api.server import create_app
from swell.api.unix_socket import announce, listen, shared_socket
from swell.api.user_list import HOW_TO_END, UserList, UserListError, refuse_unkept, set_quotas
from swell.assemble import open_platform
from swell.executors.limited_log import RecordFormatter, log_to_stderr
from swell.executors.local.agent.door import DoorError
from swell.executors.local.launch import AgentError
from swell.executors.remote.certificate import controller_context, fingerprint_of, make_certificate
from swell.executors.remote.host_address import HostAddress, parse_address
from swell.live.news import Addresses
from swell.live.platform import Platform
from swell.live.user_rates import UserRates
from swell.model.errors import Unavailable
from swell.platform_options import PlatformOptions
from swell.store.copies import StateCopyThread
from swell.store.errors import StateUnwritable
from swell.store.folder import ApiAddress, StateFolder

log = logging.getLogger("swell.daemon")

#: Of `mallopt` (malloc.h): blocks of so many bytes are asked of the system, and go back to it.
MALLOPT_MMAP_THRESHOLD, LARGE_BYTES = -3, 1 << 20


def serve(
    folder: StateFolder,
    options: PlatformOptions,
    port: int | None = None,
    metrics_port: int | None = None,
    metrics_address: str | None = None,
) -> None:
    """Run a platform with its API until it is told to stop, by request or by SIGTERM or SIGINT.

    Args:
        port: of loopback HTTP, besides the Unix socket; 0 picks a free one; None: no port.
        metrics_port: likewise, where only metrics are to be had.
        metrics_address: at which that port is; None: loopback.

    Raises:
        StateError: the state folder cannot be used, or another platform uses it.
        InvalidOption: devices, policy or port are not to be had.
        InvalidInput: the policy cannot keep the quotas of tenants.
        ApiError: no worker can be started.
    """
    addresses = load_addresses(folder)
    _prepare_process()
    with _opened(folder, options, addresses) as platform, ExitStack() as stack:
        listeners = _listen(stack, folder, options.share, port)
        stack.enter_context(_noticed(folder))
        at = metrics_address or HOST
        bound_metrics_port = stack.enter_context(_metrics(platform, folder, metrics_port, at))
        server, network = stack.enter_context(_api(platform, folder, options, listeners, port is not None))
        gc.collect()
        gc.freeze()  # to look through modules and 10,000 jobs again stops the head for .1 s each time
        stack.callback(folder.remove_endpoint)
        with _stopped_at_once():
            platform.start()
        _stop_on_signals(platform)
        endpoint = ApiAddress.of_this_process(
            None if port is None else server.port,
            metrics_port=bound_metrics_port,
            metrics_address=at,
            network_url=network[0],
            fingerprint=network[1],
        )
        _announce(folder, options, endpoint)
        if options.backup_to:
            to = Path(options.backup_to)
            copies = StateCopyThread(folder, to, options.backup_every, platform.remarks)
            copies.start()
            stack.callback(copies.stop)
        platform.run()


@contextmanager
def _api(
    platform: Platform,
    folder: StateFolder,
    options: PlatformOptions,
    listeners: list[socket.socket],
    has_port: bool,
) -> Iterator[tuple[ApiServer, tuple[str, str]]]:
    """The API, which answers; and its URL and the fingerprint of its certificate in the network."""
    settings = options.made_settings
    intake = SubmissionCheck(folder, settings.code, options.workdirs, options.hosts_may_join)
    users = UserList(folder.path, group=options.accounts)
    door, token = PageDoor(folder), folder.ensure_token()
    page = Page(platform, SessionList(token), door.port)
    served = parse_address(options.serve) if options.serve else None
    names = () if served is None else names_of(served)
    app = create_app(platform, token, users, intake, page, names, UserRates(settings.user_rates))
    server = ApiServer(app, *listeners)
    with intake.processes:
        server.start()
        door.open(server, has_port)
        network = ("", "") if served is None else serve_network(server, folder.path, served)
        try:
            yield server, network
        finally:
            page.stop()
            server.stop()


def _announce(folder: StateFolder, options: PlatformOptions, endpoint: ApiAddress) -> None:
    """Write down with what the platform is up, and where it answers."""
    changed = {"settings": options.made_settings.changed, "engine_options": options.made_engine.changed}
    folder.write_options(msgspec.structs.replace(options, **changed))
    folder.write_endpoint(endpoint)
    if options.share:
        announce(options.share, endpoint)
    folder.write_notice("")


class PageDoor:
    """The page's port of this machine, which a platform has from when the page is first asked for.

    It is kept in the state folder, so that a page that is open goes on after a restart.
    """

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder
        self._last_port = folder.page_port()
        self._lock = threading.Lock()
        self._server: ApiServer | None = None
        self._port: int | None = None

    def open(self, server: ApiServer, has_port: bool) -> None:
        """The server has started.

        Args:
            has_port: it listens on a port already, which is the page's too.
        """
        self._server = server
        if has_port:
            self._port = server.port
        elif self._last_port:
            try:
                self._listen(server, self._last_port)
            except InvalidOption as error:  # pages that are open cannot go on
                log.warning("the page is not at its port of before: %s", error)

    def port(self) -> int:
        """Any thread but the server's. Raises Unavailable."""
        with self._lock:
            if self._server is None:
                raise Unavailable("the platform is starting; try again")
            if self._port is None:
                self._listen_anywhere(self._server)
            return self._port or 0

    def _listen_anywhere(self, server: ApiServer) -> None:
        """Listen on the port of the former daemon if it is free, else on any other."""
        try:
            self._listen(server, self._last_port)
        except PortHeld:
            self._listen(server, 0)
        self._folder.write_page_port(self._port or 0)

    def _listen(self, server: ApiServer, port: int) -> None:
        listener = bind(port)
        server.listen_on(listener)
        self._port = int(listener.getsockname()[1])


def _prepare_process() -> None:
    """Give the log of faults dates, as to who was told what, and have glibc give back what a state takes.

    Once glibc has freed a large block, it takes the next ones from its heap otherwise, which never shrinks.
    """
    log_to_stderr("%(asctime)s webhook: %(message)s", logging.getLogger("swell.webhooks"))
    if logging.lastResort is not None:  # that of all faults
        logging.lastResort.setFormatter(RecordFormatter())
    with suppress(OSError, AttributeError):  # of another C library
        ctypes.CDLL(None).mallopt(MALLOPT_MMAP_THRESHOLD, LARGE_BYTES)
    from swell.solvers.capacity import fill

    if fill.__file__.endswith(".py"):
        log.warning(
            "the loops of the scheduler run as plain Python, which is slow with hundreds of open jobs: there "
            "was no C compiler when Swell was installed"
        )


def _listen(stack: ExitStack, folder: StateFolder, share: str, port: int | None) -> list[socket.socket]:
    """Sockets that are closed with the stack: of a port, of the folder, and of the one that users share."""
    listeners = [] if port is None else [stack.enter_context(bind(port))]
    listeners.append(stack.enter_context(listen(folder.socket)))
    stack.callback(folder.socket.unlink, missing_ok=True)
    return [*listeners, stack.enter_context(shared_socket(share))] if share else listeners


@contextmanager
def _metrics(platform: Platform, folder: StateFolder, port: int | None, address: str) -> Iterator[int | None]:
    """Served from a thread of their own; the port that they are at."""
    if port is None:
        yield None
        return
    with bind(port, "--metrics-port", address) as listener:
        app = create_metrics_app(platform, folder, is_local=address in HOST_NAMES)
        server = ApiServer(app, listener)
        server.start()
        try:
            yield server.port
        finally:
            server.stop()


@contextmanager
def _opened(folder: StateFolder, options: PlatformOptions, addresses: Addresses) -> Iterator[Platform]:
    users = UserList(folder.path)
    try:
        with suppress(UserListError):  # the platform warns of that later
            refuse_unkept([options.policy], users.quotas(), HOW_TO_END)
        with open_platform(folder, options, addresses, set_quotas(users, options.policy)) as platform:
            yield platform
    except AgentError as error:
        raise ApiError(str(error)) from error


@contextmanager
def _noticed(folder: StateFolder) -> Iterator[None]:
    """What ends a platform out of order is kept where commands find it, on a full disk too."""
    try:
        yield
    except Exception as error:
        with suppress(StateUnwritable):  # stderr has it too
            folder.write_notice(str(error))
        raise


@contextmanager
def _stopped_at_once() -> Iterator[None]:
    """While the platform begins a signal ends this process as a kill would.

    It may wait for hosts of a former agent, and has nothing yet that could be stopped in order.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise SystemExit("stopped before it had begun; what runs goes on: `swell down` ends it")

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_on_signals(platform: Platform) -> None:
    def ask() -> None:
        try:
            platform.stop()
        except Unavailable as error:  # it has ended by itself meanwhile, or the head hangs
            log.warning("asked to stop by a signal: %s", error)

    def stop(_number: int, _frame: FrameType | None) -> None:
        # A handler runs between two instructions of the head, which may hold the lock that stop needs.
        threading.Thread(target=ask, name="swell-stop").start()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


# ---------------------------------------------------------------- the network
def names_of(address: HostAddress) -> set[str]:
    """The names under which this machine is reached at an address."""
    own = {socket.gethostname(), socket.getfqdn()}
    return own if address.is_any else {*own, str(address).rpartition(":")[0]}


def serve_network(server: ApiServer, state_dir: Path, address: HostAddress) -> tuple[str, str]:
    """Have a server that has started answer at an address of this machine, too.

    Returns the URL, and the fingerprint of the certificate. Raises InvalidOption.
    """
    try:
        certificate = make_certificate(state_dir)
        context, fingerprint = controller_context(certificate), fingerprint_of(certificate)
    except DoorError as error:
        raise InvalidOption(f"--serve: {error}") from error
    listener = bind(address.port, "--serve", address.host)
    port: int = listener.getsockname()[1]
    server.listen_on(listener, context)
    host = socket.gethostname() if address.is_any else address.host
    return f"https://{HostAddress(host, port)}", fingerprint.hex()
