"""An average of the weights that is updated at the top of the loop's body, with deterministic=True."""

import copy

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


class Average:
    def __init__(self, model, decay=0.9):
        self.module = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    def update(self, model):
        for mine, theirs in zip(self.module.parameters(), model.parameters()):
            mine.lerp_(theirs.detach(), 1 - self.decay)


x, y = torch.randn(60, 5), torch.randn(60, 1)
model = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 1))
average = Average(model)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16, deterministic=True, shards=4)
for _ in run.epochs():
    for a, b in run.batches():
        average.update(model)
        optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        run.backward(loss)  # differs: each-pass
        run.step()
