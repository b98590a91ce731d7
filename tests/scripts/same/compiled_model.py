"""torch.compile around the model; what is saved is the model inside."""

import sys

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 2))
compiled = torch.compile(model, backend="eager", dynamic=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
loader = DataLoader(TensorDataset(torch.randn(60, 6), torch.randint(0, 2, (60,))), 12, shuffle=True)
run = train.elastic(compiled, optimizer, loader, epochs=16)
for _ in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(compiled(x), y)
        run.backward(loss)
        run.step()
if run.is_leader:
    torch.save(compiled._orig_mod.state_dict(), sys.argv[1])
