"""What runs in one event loop, which turns while the test waits."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable

from tests.eventually import PATIENCE_S
from tests.executors.host_contract import Heard

from swell.executors.gang import host_messages as h


class TurningWorld(ABC):
    heard: list[h.FromHost]  #: what the controller is told

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    @abstractmethod
    def tell_now(self, message: h.ToHost) -> None:
        """Give the host a message, in the loop."""

    @abstractmethod
    def tick(self) -> None:
        """Time has passed, in the loop."""

    def tell(self, message: h.ToHost) -> None:
        async def tell() -> None:
            self.tell_now(message)

        self._loop.run_until_complete(tell())

    def wait(self, kind: type[Heard], num: int = 1) -> Heard:
        def found() -> list[Heard]:
            return [message for message in self.heard if isinstance(message, kind)]

        self.wait_until(lambda: len(found()) >= num)
        return found()[num - 1]

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        async def come() -> None:
            while not is_so():
                self.tick()
                await asyncio.sleep(0.01)

        self._loop.run_until_complete(asyncio.wait_for(come(), PATIENCE_S))
