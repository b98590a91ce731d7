"""How the machines come and go."""

import os
import signal
import subprocess

import msgspec
from swell_machines.engine import Machines

from swell.executors.controller.controller import Controller
from swell.executors.local.agent.options import AgentOptions
from swell.executors.node.options import NodeOptions, find_host
from swell.executors.remote.listening_door import ListeningDoor


class MachinesDoor(ListeningDoor):
    """Starts them when it opens, and ends them when it closes."""

    def __init__(self, controller: Controller, options: AgentOptions, session: str) -> None:
        listen = options.listen or "127.0.0.1:0"
        super().__init__(controller, msgspec.structs.replace(options, listen=listen), session)
        machines = msgspec.json.decode(options.engine, type=Machines)
        self._each = machines.each
        self._folders = [options.state_dir / f"machine{number}" for number in range(machines.num_machines)]

    async def open(self) -> str:
        address = await super().open()
        token = str(self.token_file("machines"))
        for folder in self._folders:
            if find_host(folder) is not None:
                continue  # an agent before this one has started it
            host = NodeOptions(join=address, token_file=token, name=folder.name, devices=self._each)
            subprocess.Popen(host.command(folder))
        return address

    async def close(self) -> None:
        await super().close()  # workers are gone
        for folder in self._folders:
            if (pid := find_host(folder)) is not None:
                os.kill(pid, signal.SIGKILL)
