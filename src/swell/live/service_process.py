"""Services get texts by Apprise, each from a process of its own: a plugin may hang or fail there.

The process for an address of a user connects to public addresses only, and reads no file but those of Python
and of the system. So it reveals nothing of the platform's machine or network, whatever an address asks for.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import socket
import sys
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

#: A service that does not answer so soon has not got the text.
SERVICE_WITHIN_S = 30.0
PRIVATE = "it is of this machine or of a private network, which the owner of the platform alone may name"
UNKNOWN = "Apprise knows no such service, or the address lacks a part"
#: What no plugin needs.
_REFUSED = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "syslog.openlog")
#: What it may read beside Python's own files.
_SYSTEM = ("/etc/ssl", "/etc/pki", "/etc/mime.types", "/usr/lib", "/usr/share")
_CONNECTS = ("socket.connect", "socket.sendto", "socket.sendmsg")


async def deliver(url: str, text: str, is_confined: bool) -> str:
    """Why a service has not got a text, in words that do not show its address; empty: it has.

    Args:
        text: its first line is the title.
        is_confined: the address is a user's.
    """
    order = json.dumps({"url": url, "text": text, "is_confined": is_confined}).encode()
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-B", "-P", "-m", __name__)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, cwd="/"
    )
    try:
        async with asyncio.timeout(SERVICE_WITHIN_S):
            said, _ = await process.communicate(order)
    except TimeoutError:
        return f"no answer within {SERVICE_WITHIN_S:g} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return said.decode() if process.returncode == 0 else "the text could not be sent"


class Border:
    """An audit hook that keeps the process from the machine and its network."""

    def __init__(self) -> None:
        self.is_crossed = False  #: a connection was refused
        self._proxies = set[str]()
        for host in filter(None, (urlsplit(proxy).hostname for proxy in getproxies().values())):
            with suppress(OSError):
                self._proxies |= {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
        paths = (sys.prefix, sys.base_prefix, *filter(None, sys.path), *_SYSTEM)
        self._roots = tuple(os.path.realpath(path) for path in paths)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Raises PermissionError."""
        if event in _CONNECTS and args[1] is not None and not self._is_public(args[1]):
            self.is_crossed = True
            raise PermissionError(PRIVATE)
        is_file = event == "open" and not isinstance(args[0], int)
        if event in _REFUSED or (is_file and not self._is_system(*args)):
            raise PermissionError(f"{event} is refused here")

    def _is_public(self, address: object) -> bool:
        host = str(address[0]) if isinstance(address, tuple) else ""
        with suppress(ValueError):  # a name, or no address of the internet
            return host in self._proxies or ip_address(host.partition("%")[0]).is_global
        return False

    def _is_system(self, path: str | bytes, _mode: object, flags: int) -> bool:
        real = os.path.realpath(os.fsdecode(path))
        is_read = not flags & (os.O_WRONLY | os.O_RDWR)
        return real == os.devnull or (
            is_read and any(f"{real}/".startswith(f"{root}/") for root in self._roots)
        )


class _Status(logging.Handler):
    """Keeps the status that a service has answered with, of lines that may show the address."""

    status = ""

    def emit(self, record: logging.LogRecord) -> None:
        if found := re.search(r"error[=: ]+(\d{3})\b", record.getMessage()):
            self.status = f" (status {found[1]})"


def fault_of_text(url: str, text: str, border: Border | None) -> str:
    """Why the service has not got the text; empty: it has."""
    import apprise

    status = _Status()
    logger = logging.getLogger("apprise")
    logger.addHandler(status)
    logger.propagate = False
    services = apprise.Apprise(asset=apprise.AppriseAsset(app_id="Swell", app_desc="Swell"))
    if not services.add(url):
        return UNKNOWN
    title, _, lines = text.partition("\n")
    if services.notify(title=title, body=lines or title, body_format=apprise.NotifyFormat.TEXT):
        return ""
    return PRIVATE if border and border.is_crossed else f"the service did not take the text{status.status}"


def main() -> None:
    """Read what is to be sent from stdin, and write to stdout why it was not."""
    order = json.loads(sys.stdin.buffer.read())
    border = Border() if order["is_confined"] else None
    if border is not None:
        sys.addaudithook(border)
    sys.stdout.write(fault_of_text(order["url"], order["text"], border))


if __name__ == "__main__":
    main()
