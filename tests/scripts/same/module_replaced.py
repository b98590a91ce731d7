"""An activation is replaced in mid-run: each epoch chooses it again, for no module is saved."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
model.add_module("scale", nn.Identity())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for epoch in run.epochs():
    model.scale = nn.Tanh() if epoch >= 2 else nn.Identity()
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()
