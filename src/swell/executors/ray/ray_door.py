"""The door of a platform on a Ray cluster: its actors hold devices and run hosts, as jobs could use them."""

from __future__ import annotations

from importlib.util import find_spec

import msgspec

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.door import DoorError
from swell.executors.local.agent.options import AgentOptions
from swell.executors.ray.engine import RayEngine
from swell.executors.ray.ray_client import RayClient
from swell.executors.slices.door import SliceDoor

#: In the state folder: the number of the last slice.
LAST_FILE = "ray-slices"


class RayDoor(SliceDoor):
    """See `local.agent.door.Door`. Only Ray knows at which address hosts reach this machine."""

    period_s = 0.5
    needs_answer = True
    remedy = "`ray.kill` its actors, which are called swell:{}:NUMBER in the namespace `swell`"

    def __init__(self, controller: Controller, options: AgentOptions, session: str) -> None:
        """Raises DoorError."""
        if find_spec("ray") is None:
            raise DoorError("Ray is not installed; `--engine ray` needs it: pip install 'swell[ray]'")
        engine = msgspec.json.decode(options.engine, type=RayEngine)
        last = options.state_dir / LAST_FILE
        super().__init__(
            controller, options, session, engine, lambda platform: RayClient(platform, engine, last)
        )
