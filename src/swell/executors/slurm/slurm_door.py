"""The door of a platform on a Slurm cluster: small jobs run hosts, as many as open jobs could use."""

from __future__ import annotations

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.options import AgentOptions
from swell.executors.remote.host_address import HostAddress
from swell.executors.slices.door import SliceDoor
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.pool import PoolLimits
from swell.executors.slices.port import ClusterPort
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.slurm_slices import SlurmSlices

#: Where hosts join unless an address is named: all of this machine's, at a port that is free.
ANYWHERE = HostAddress("0.0.0.0", 0)  # noqa: S104
PREEMPTED = "Slurm takes its slice back (preemption, scancel, or the end of its time)"


class SlurmDoor(SliceDoor):
    """See `local.agent.door.Door`. It goes on without a Slurm that does not answer: hosts may run."""

    remedy = "`scancel --name=swell-{}`"

    def __init__(
        self, controller: Controller, options: AgentOptions, session: str, port: ClusterPort | None = None
    ) -> None:
        """`port`: in place of the real Slurm. Raises DoorError."""
        engine = msgspec.json.decode(options.engine, type=SlurmEngine)
        limits = PoolLimits(
            cluster="Slurm",
            max_slices=engine.max_nodes,
            min_slices=engine.min_nodes,
            num_devices=engine.num_devices,
            idle_s=engine.idle_s,
            is_borrowing=engine.is_borrowing,
            about=engine.partition,
        )
        order = SliceOrder(
            cluster="slurm",
            devices=engine.slice_devices,
            is_borrowed=engine.is_borrowing,
            sigterm_means=PREEMPTED,
        )
        super().__init__(controller, options, session, limits, order, ANYWHERE)
        self._port = port or SlurmSlices(f"swell-{self._platform}", engine, options.state_dir / "slurm")
