"""Draws random numbers in every usual way before `elastic`, and prints them."""

import json
import random

import numpy as np
import torch

from swell import train

files = [f"part-{number}" for number in range(20)]
random.shuffle(files)
drawn = {
    "files": files,
    "split": np.random.permutation(10).tolist(),
    "generators": [np.random.default_rng().integers(1000).item() for _ in range(3)],
    "Random": random.Random().random(),
    "RandomState": np.random.RandomState().randint(1000),
    "own": np.random.default_rng(3).integers(1000).item(),
    "weights": torch.rand(2).tolist(),
}
print("drawn", json.dumps(drawn), flush=True)

# From `elastic` on generators without a seed are their own.
model = torch.nn.Linear(1, 1)
data = torch.utils.data.TensorDataset(torch.zeros(8, 1))
loader = torch.utils.data.DataLoader(data, batch_size=4)
run = train.elastic(model, torch.optim.SGD(model.parameters(), lr=0.1), loader, epochs=1)
print("after", int(np.random.default_rng().integers(2**40)))
raise RuntimeError("all is drawn")
