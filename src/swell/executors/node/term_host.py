"""The host that a machine is in one term: it offers devices once workers can start, and ends as a whole."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from swell.executors.hosts.messages import DevicesOffered, FromHost
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.devices import LocalNode
from swell.executors.local.limits.allocation import available_cores

#: For a zygote to tell that its workers have ended; then it is killed, and they with it. Well within the
#: margin that the controller waits after a lease (`LeaseTimes.margin_s`).
REAP_S = 1.0

log = logging.getLogger("swell.node")


class TermHost(LocalHost):
    """The processes of one term, see `HostTerms`. Every method returns at once."""

    def __init__(
        self,
        options: AgentOptions,
        lock_fd: int,
        answer: Callable[[FromHost], None],
        node: LocalNode,
    ) -> None:
        super().__init__(options, lock_fd, answer)
        self._node = node
        self.bindings.update(node.bindings)  # what was begun on these devices before may go on at once
        self._has_offered = False
        self._ending: asyncio.Task[None] | None = None

    def present(self) -> None:
        """Devices are offered once workers can start on them: what is given to a job before waits unused."""
        self.tell_kept()
        if not self._offer_if_warm():
            self._answer(DevicesOffered(devices={}, num_cores=available_cores()))

    def _offer_if_warm(self) -> bool:
        """Offer the devices once workers can start on them. Returns whether they are offered."""
        if not self._has_offered and self.is_warming_up:
            return False
        if not self._has_offered:
            log.info("modules are imported: the devices of this host are offered")
        self._has_offered = True
        self.offer(self._node.bindings, (self._node.node,))
        return True

    # ------------------------------------------------------------ until it ends
    def tick(self) -> None:
        super().tick()
        if not self._has_offered:
            self._offer_if_warm()

    def kill(self) -> None:
        """Begin to end every process."""
        self._ending = asyncio.get_running_loop().create_task(self.shut_down(REAP_S))

    @property
    def is_gone(self) -> bool:
        """Whether none is left, after `kill`."""
        if self._ending is None or not self._ending.done():
            return False
        self._ending.result()  # a failure ends this process, and the kernel all others of it
        return True
