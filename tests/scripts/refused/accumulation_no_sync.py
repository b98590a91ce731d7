"""Accumulation as with DistributedDataParallel: no_sync for all but the last of some batches."""

from contextlib import nullcontext

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
accum_steps = 3
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for number, (a, b) in enumerate(run.batches()):
        is_last = (number + 1) % accum_steps == 0
        silent = nullcontext() if is_last or not hasattr(model, "no_sync") else model.no_sync()
        with silent:
            loss = F.cross_entropy(model(a), b) / accum_steps
            run.backward(loss)  # refused: do not divide the loss by accum
        if is_last:
            run.step()
            optimizer.zero_grad()
