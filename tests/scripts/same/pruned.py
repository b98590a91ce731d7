"""Weights are pruned by magnitude after some epochs; masks are buffers, made permanent at the end."""

from tests.scripts.common import DataLoader, TensorDataset, elastic, nn, torch
from torch.nn.utils import prune

model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
for i in (0, 2):
    prune.identity(model[i], "weight")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, y = torch.rand(72, 6), torch.randint(0, 3, (72,))
run = elastic(model, optimizer, DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True), epochs=20)
for epoch in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()
    if epoch in (1, 4):
        prune.global_unstructured(
            [(model[0], "weight"), (model[2], "weight")], pruning_method=prune.L1Unstructured, amount=0.2
        )
    run.report(sparsity=float((model[0].weight == 0).double().mean()))
for i in (0, 2):
    prune.remove(model[i], "weight")
