"""Stochastic weight averaging from half way on, with update_bn over the loader at the end."""

import sys

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn

x = torch.randn(60, 1, 8)
y = (x.mean((1, 2)) > 0).long()
data = TensorDataset(x, y)
loader = DataLoader(data, batch_size=12, shuffle=True)
model = nn.Sequential(
    nn.Conv1d(1, 6, 3), nn.BatchNorm1d(6), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(6, 2)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
swa_model = AveragedModel(model)
swa_scheduler = SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)
swa_start = 8

run = train.elastic(model, optimizer, loader, epochs=16, deterministic=True)
for epoch in run.epochs():
    model.train()
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        run.backward(loss)
        run.step()
    if epoch >= swa_start:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    run.report(rate=optimizer.param_groups[0]["lr"])

update_bn(DataLoader(data, batch_size=20), swa_model)
if run.is_leader:
    torch.save(swa_model.state_dict(), sys.argv[1])
