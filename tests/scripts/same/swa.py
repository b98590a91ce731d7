"""Stochastic weight averaging with torch's AveragedModel, in `state`, from step 40 on."""

import sys

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train
from torch.optim.swa_utils import AveragedModel

base_model = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 2))
swa_model = AveragedModel(base_model)
x = torch.randn(60, 5)
loader = DataLoader(TensorDataset(x, (x.prod(1) > 0).long()), batch_size=12, shuffle=True)
optimizer = torch.optim.SGD(base_model.parameters(), lr=0.1)
run = train.elastic(base_model, optimizer, loader, steps=80, state={"swa": swa_model})
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(base_model(a), b)
        run.backward(loss)
        run.step()
        if run.has_stepped and run.steps > 40:
            swa_model.update_parameters(base_model)
if run.is_leader:
    torch.save(swa_model.state_dict(), sys.argv[1])
