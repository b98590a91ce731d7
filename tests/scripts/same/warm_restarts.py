"""Linear warm-up and then cosine annealing with warm restarts, in a SequentialLR."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train
from torch.optim import lr_scheduler

x = torch.rand(60, 1) * 6
loader = DataLoader(TensorDataset(x, torch.sin(x)), batch_size=12, shuffle=True)
model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
warmup = lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=12)
cosine = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=15, T_mult=2)
scheduler = lr_scheduler.SequentialLR(optimizer, [warmup, cosine], milestones=[12])

run = train.elastic(model, optimizer, loader, epochs=16, scheduler=scheduler)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
    run.report(lr=optimizer.param_groups[0]["lr"])
