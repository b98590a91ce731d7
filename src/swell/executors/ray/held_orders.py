"""Orders to a host about workers that wait for their devices: held back until Ray has leased these."""

from __future__ import annotations

import signal
from collections.abc import Callable, Collection

import msgspec

from swell.executors.hosts.messages import (
    NodeHost,
    SignalWorker,
    StartWorker,
    TellWorker,
    ToHost,
    WorkerExited,
)
from swell.executors.ray.device_leases import DeviceLeases, Holder

#: Signals after which a worker that waits for its devices is not started.
ENDING = (signal.SIGKILL, signal.SIGTERM)


class HeldOrders:
    """Orders held back from one host that Ray has started."""

    def __init__(
        self,
        far: NodeHost,
        leases: DeviceLeases,
        exited: Callable[[WorkerExited], None],
        send_orders: Callable[[], None],
    ) -> None:
        """
        Args:
            exited: tells the controller.
            send_orders: hands the orders of the leases on; called after each change of them.
        """
        self._far, self._leases = far, leases
        self._exited, self._send_orders = exited, send_orders
        self._waiting: dict[Holder, list[StartWorker | TellWorker | SignalWorker]] = {}

    @property
    def waiting(self) -> Collection[Holder]:
        """Workers that are not started yet."""
        return self._waiting.keys()

    def tell(self, message: ToHost) -> None:
        """What the controller says to the host; that of workers which wait is said in order, later."""
        match message:
            case StartWorker(run=run, worker=worker):
                self._leases.want((run, worker), message.devices)
                self._waiting[run, worker] = [message]
                self.start_leased({(run, worker)})
                self._send_orders()
            case TellWorker(run=run, worker=worker) | SignalWorker(run=run, worker=worker) if (
                run,
                worker,
            ) in self._waiting:
                if isinstance(message, SignalWorker) and message.signal in ENDING:
                    self.call_off((run, worker), -message.signal, "")
                else:
                    self._waiting[run, worker].append(message)
            case _:
                self._far.tell(message)

    def start_leased(self, holders: Collection[Holder]) -> None:
        """Those of them that wait and have all their devices now."""
        ready = [holder for holder in self._waiting if holder in holders and self._leases.has(holder)]
        for holder in ready:
            for message in self._waiting.pop(holder):
                if isinstance(message, StartWorker):
                    message = _on_gpus(message, self._leases.gpus_of(holder, message.devices))
                self._far.tell(message)

    def call_off(self, holder: Holder, status: int, why: str) -> None:
        """A worker that waits for its devices will not be started.

        The controller may kill others of its gang while it hears that, and so call them off first.
        """
        if self._waiting.pop(holder, None) is None:
            return
        self._leases.drop(holder)
        run, worker = holder
        self._send_orders()
        self._exited(WorkerExited(run=run, worker=worker, status=status, log_tail=why))


def _on_gpus(order: StartWorker, gpus: tuple[str, ...]) -> StartWorker:
    """The GPUs that Ray has leased, which are not those that the host would choose."""
    if not gpus:
        return order
    environ = {**order.environ, "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    return msgspec.structs.replace(order, environ=environ)
