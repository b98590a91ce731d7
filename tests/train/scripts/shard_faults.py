"""`curve.py` with parts of the optimizer's state, and a fault at a moment that the environment names.

SHARD_FAULTS: `{"2": ["unsure", 7]}`, for worker 2 in its step 7. At the end each worker
writes to the folder of the result what it holds, as `held-WORKER.json`: a digest of each piece.
"""

import hashlib
import json
import os
import runpy
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from swell.train.runtime.divided_run import DividedWorker
from swell.train.sharding import block_exchange
from swell.train.sharding.block_exchange import BlockExchange
from swell.train.sharding.divided_block import DividedBlock
from swell.train.sharding.shard_exchange import ShardExchange
from swell.train.sharding.shard_group import ShardGroup
from swell.train.sharding.state_pieces import StatePiece

from swell.train.collective import peer_memory
from swell.train.collective.group import GroupBroken
from swell.train.collective.pieces import Pieces
from swell.train.link.agent_link import open_link
from swell.train.runtime import divided_run
from swell.train.state import state_transfer
from swell.wire import environ

WORKER = os.environ[environ.WORKER]
FAULT, AT_STEP = json.loads(os.environ.get("SHARD_FAULTS", "{}")).get(WORKER, ["", 0])
# These jobs are short: workers compare what they have in steps 1, 9 and 17.
divided_run.COMPARE_EVERY = block_exchange.COMPARE_EVERY = 8
votes = count(1)  # no variable that Swell takes back with a step that comes again
hand_on = BlockExchange._hand_on
gather, reduce, gather_model = BlockExchange.gather_or_fail, BlockExchange.reduce, ShardGroup.gather_model
changes, is_change_faulty, read, fill = count(1), False, ShardExchange._read, ShardGroup._fill
vote, spread, finish, broadcast = ShardGroup.vote, ShardGroup.spread, DividedWorker.finish, dist.broadcast


def blind_read(*_: object) -> None:
    raise PermissionError("as where Yama or seccomp forbids it")


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def faulty_vote(self: ShardGroup, compares: bool) -> bool:
    is_now = self.is_faulty = next(votes) == AT_STEP  # type: ignore[attr-defined]
    if is_now and FAULT == "before the vote":
        die()
    if FAULT == "at an order" and open_link().order is not None:
        die()
    if is_now and FAULT == "a mirror":
        [(begin, _), *_] = self._layout.mirrored[self._group.rank]
        self._shard.pieces.slices((begin, begin + 1))[0].add_(1e-3)
    answer = vote(self, compares)
    if is_now and FAULT == "after the vote":
        die()
    if is_now and FAULT == "unsure":  # all have passed, and this one does not know
        raise GroupBroken("a fault")
    return answer


def faulty_spread(self: ShardGroup) -> None:
    is_now = self.is_faulty  # type: ignore[attr-defined]
    if is_now and FAULT == "before the parameters":
        die()
    if is_now and FAULT == "amid the parameters":
        dist.broadcast = one_broadcast  # type: ignore[assignment]
    spread(self)
    if is_now and FAULT == "after the parameters":
        die()
    if is_now and FAULT == "drift":
        self._shard._optimizer.param_groups[0]["lr"] *= 2.0


def faulty_fill(self: ShardGroup, *arguments: Any) -> None:
    global is_change_faulty
    transfers: ShardExchange = arguments[-1]
    is_change_faulty = bool(transfers._near or transfers._far) and next(changes) == AT_STEP
    fill(self, *arguments)


def faulty_read(self: ShardExchange, *arguments: Any) -> Any:
    is_now = is_change_faulty
    if is_now and FAULT == "before a copy":
        die()
    answer = read(self, *arguments)
    if is_now and FAULT == "after its copy":
        die()
    return answer


def faulty_gather(self: BlockExchange, block: DividedBlock) -> torch.Tensor:
    global FAULT
    is_now = self._is_within and self._num_steps == AT_STEP and block.number == 1
    is_between = not self._is_within and self._num_steps >= AT_STEP and block.number == 1
    if (is_now and FAULT == "before a gathering") or (is_between and FAULT == "in an evaluation"):
        die()
    if FAULT == "after an evaluation" and self._num_steps == AT_STEP + 2:
        die()
    full = gather(self, block)
    if not self._is_within and self._num_steps >= AT_STEP and f"behind at block {block.number}" == FAULT:
        FAULT = ""
        self.num_gathered -= 1
        raise GroupBroken("a fault")  # all others have the block
    if is_now and FAULT == "after a gathering":
        die()
    return full


def faulty_end(self: ShardGroup) -> None:
    if FAULT == "at the end":
        die()
    gather_model(self)


def faulty_reduce(self: BlockExchange, block: DividedBlock, gradient: torch.Tensor) -> torch.Tensor:
    if FAULT == "amid the gradients" and self._num_steps == AT_STEP and block.number == 0:
        die()
    return reduce(self, block, gradient)


def faulty_hand_on(self: BlockExchange, block: DividedBlock, own: torch.Tensor) -> torch.Tensor:
    if FAULT == "with a sum" and self._num_steps == AT_STEP and block.number == 0:
        die()
    return hand_on(self, block, own)


def one_broadcast(tensor: torch.Tensor, source: int, **options: Any) -> Any:
    if source:
        die()
    return broadcast(tensor, source, **options)


def own_value(piece: StatePiece) -> dict[str, torch.Tensor]:
    return {} if piece.value is None else {"itself": piece.value}


def telling_finish(self: DividedWorker, is_early: bool) -> None:
    shard = self._task.state.shard
    assert shard is not None
    whole = shard.pieces
    held = {
        f"{piece.begin}-{piece.end}": [
            [name, hashlib.sha256(value.cpu().numpy().tobytes()).hexdigest() if value.dim() else float(value)]
            for name, value in sorted({**piece.kept, **own_value(piece)}.items())
        ]
        for piece in whole.pieces
    }
    (Path(sys.argv[1]).parent / f"held-{WORKER}.json").write_text(json.dumps(held))
    finish(self, is_early)


BlockExchange.gather_or_fail, BlockExchange.reduce = faulty_gather, faulty_reduce  # type: ignore[method-assign]
BlockExchange._hand_on = faulty_hand_on  # type: ignore[method-assign]
ShardGroup.gather_model = faulty_end  # type: ignore[method-assign]
if WORKER in (places := json.loads(os.environ.get("SHARD_PLACES", "{}"))):
    state_transfer.own_place = lambda: places[WORKER]  # type: ignore[attr-defined]
if FAULT == "amid a state":
    Pieces.unload = die  # type: ignore[assignment,method-assign]
if FAULT == "blind":
    peer_memory.read = blind_read  # type: ignore[assignment]
ShardExchange._read, ShardGroup._fill = faulty_read, faulty_fill  # type: ignore[assignment,method-assign]
ShardGroup.vote, ShardGroup.spread, DividedWorker.finish = faulty_vote, faulty_spread, telling_finish  # type: ignore[method-assign]
runpy.run_path(str(Path(__file__).with_name("curve.py")))
