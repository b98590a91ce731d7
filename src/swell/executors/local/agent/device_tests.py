"""Tests of this host's devices, in a process of their own; see `train.collective.device_test`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Sequence

import msgspec

from swell.executors.gang.job_context import DeviceBinding
from swell.model.quantities import span
from swell.model.usage import TEST_LIMIT_S, DeviceTest
from swell.wire.environ import GPU_ORDER

#: A killed process is gone by then.
KILLED_S = 5.0
PROGRAM = (sys.executable, "-P", "-m", "swell.train.collective.device_test")


async def test_devices(names: Sequence[str], bindings: Sequence[DeviceBinding]) -> tuple[DeviceTest, ...]:
    """What a test has found. If it does not come to its end, no device is known to be sound.

    The process ends with this one, whose end of its standard input closes then.
    """
    gpus = [one.cuda for one in bindings if one.cuda]
    devices = [f"cuda:{gpus.index(one.cuda)}" if one.cuda else one.torch_device for one in bindings]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(gpus), **GPU_ORDER}
    read, write = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *devices, stdin=read, stdout=PIPE, stderr=DEVNULL, env=environ, start_new_session=True
    )
    os.close(read)
    why = "the test has ended without a result"
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), TEST_LIMIT_S)
        told = zip(names, map(msgspec.json.decode, printed.splitlines()), strict=True)
        return tuple(DeviceTest(device=name, **fields) for name, fields in told)
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        why = f"the test did not end within {span(TEST_LIMIT_S)}"
        with contextlib.suppress(TimeoutError):  # a call of a driver that hangs may outlast any signal
            await asyncio.wait_for(process.wait(), KILLED_S)
    except (ValueError, TypeError, msgspec.DecodeError):
        pass
    finally:
        os.close(write)
    return tuple(DeviceTest(device=name, fault=why) for name in names)
