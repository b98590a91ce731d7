"""A script whose group is formed, and whose steps are made, by a library.

Argument: a folder with the library, and with the FIFO through which a test allows the step.
"""

import sys
from pathlib import Path

import torch

folder = Path(sys.argv[1])
sys.path.insert(0, str(folder))
import accelerate  # noqa: E402 - the test's own, of that name

accelerate.form()
print("formed", flush=True)
(folder / "allowed").read_text()
parameter = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([parameter], lr=0.1)
parameter.sum().backward()
accelerate.step(optimizer)
