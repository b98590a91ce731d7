"""A language model on a memory map: `get_batch` became a dataset. An average of the weights is evaluated."""

import sys
import tempfile
from pathlib import Path

from tests.scripts.common import DataLoader, Dataset, RandomSampler, nn, np, torch, train
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

block_size, vocabulary = 8, 16
path = Path(tempfile.mkdtemp()) / "train.bin"
(np.arange(400) ** 2 % vocabulary).astype(np.uint16).tofile(path)


class Blocks(Dataset):
    def __init__(self, path):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self):
        return len(self.tokens) - block_size

    def __getitem__(self, start):
        block = torch.from_numpy(self.tokens[start : start + block_size + 1].astype(np.int64))
        return block[:-1], block[1:]


data = Blocks(path)
loader = DataLoader(data, batch_size=12, sampler=RandomSampler(data, replacement=True, num_samples=120))
model = nn.Sequential(nn.Embedding(vocabulary, 12), nn.Linear(12, 24), nn.GELU(), nn.Linear(24, vocabulary))
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

run = train.elastic(model, optimizer, loader, epochs=8, max_local_batch=3, state={"ema": ema})
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        run.backward(loss)
        run.step()
        if run.has_stepped:
            ema.update_parameters(model)

if run.is_leader:
    torch.save(
        {f"ema.{key}": value for key, value in ema.state_dict().items()} | model.state_dict(), sys.argv[1]
    )
