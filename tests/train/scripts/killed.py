"""Is killed in the last moment of writing a checkpoint into the folder that its argument names."""

import os
import signal
import sys
from pathlib import Path
from unittest.mock import patch

import torch
from torch import nn

from swell.train.state.checkpoint import CheckpointStore
from swell.train.state.train_state import TrainState


def be_killed(source: str, target: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


model = nn.Linear(3, 1)
state = TrainState(model, torch.optim.SGD(model.parameters(), 0.1), None, {})
with patch.object(os, "rename", be_killed):
    CheckpointStore(Path(sys.argv[1]), 2, 30.0).save(state)
