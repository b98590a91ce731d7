"""Fewer samples than a batch takes, with drop_last."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x, y = torch.randn(8, 5), torch.randint(0, 3, (8,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True, drop_last=True)
run = train.elastic(  # refused: the dataset has 8 samples and a batch takes 12
    model, optimizer, loader, steps=80
)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()
