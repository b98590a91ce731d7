"""The processes of one term: a `LocalHost` that is shut down as a whole."""

from __future__ import annotations

import asyncio

from swell.executors.hosts.messages import ToHost
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.devices import LocalNode
from swell.executors.local.lines import LineLink
from swell.wire.messages import Hello

#: For a zygote to tell that its workers have ended; then it is killed, and they with it. Well within the
#: margin that the controller waits after a lease (`LeaseTimes.margin_s`).
REAP_S = 1.0


class LocalInside:
    """See `Inside`."""

    def __init__(self, host: LocalHost, node: LocalNode) -> None:
        """`host`: started."""
        self._host, self._node = host, node
        self._ending: asyncio.Task[None] | None = None

    def offer(self) -> None:
        self._host.tell_kept()
        self._host.offer(self._node.bindings, (self._node.node,))

    def tell(self, message: ToHost) -> None:
        self._host.tell(message)

    def admit(self, link: LineLink, hello: Hello) -> bool:
        """See `LocalHost.admit`."""
        return self._ending is None and self._host.admit(link, hello)

    def tick(self) -> None:
        if self._ending is None:
            self._host.tick()

    def kill(self) -> None:
        self._ending = asyncio.get_running_loop().create_task(self._host.shut_down(REAP_S))

    @property
    def is_gone(self) -> bool:
        if self._ending is None or not self._ending.done():
            return False
        self._ending.result()  # a failure ends this process, and the kernel all others of it
        return True
