"""The daemon: a platform, its API, and the end of both."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from swell.api.errors import ApiError, InvalidOption
from swell.api.server import create_app
from swell.api.serving import HOST, ApiServer, bind
from swell.assemble import PlatformOptions, open_platform
from swell.executors.local.devices import DeviceError
from swell.executors.local.launch import AgentError
from swell.live.platform import Platform
from swell.model.errors import Unavailable
from swell.policies.registry import UnknownPolicy
from swell.store.folder import Endpoint, LastOptions, StateFolder

log = logging.getLogger("swell.daemon")


def serve(options: PlatformOptions, port: int = 0) -> None:
    """Run a platform with its API until it is told to stop, by request or by SIGTERM or SIGINT.

    Raises:
        StateError: the state folder cannot be used, or another platform uses it.
        InvalidOption: devices, policy or port are not to be had.
        ApiError: no worker can be started.
    """
    folder = StateFolder(options.state_dir)
    with _opened(options) as platform, bind(port) as listener:
        server = ApiServer(create_app(platform, folder.ensure_token()), listener)
        server.start()
        try:
            _stop_on_signals(platform)
            folder.write_options(_to_remember(options))
            folder.write_endpoint(Endpoint(host=HOST, port=server.port, pid=os.getpid()))
            platform.run()
        finally:
            folder.remove_endpoint()
            server.stop()


@contextmanager
def _opened(options: PlatformOptions) -> Iterator[Platform]:
    try:
        with open_platform(options) as platform:
            yield platform
    except (DeviceError, UnknownPolicy) as error:
        raise InvalidOption(str(error)) from error
    except AgentError as error:
        raise ApiError(str(error)) from error


def _to_remember(options: PlatformOptions) -> LastOptions:
    return LastOptions(
        devices=options.devices,
        policy=options.policy,
        preload=options.preload,
        settings=options.settings.changed,
    )


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
