"""InfoNCE: all other samples of the batch are the negatives."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 5)
views = torch.stack([x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)], dim=1)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(views), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for (v,) in run.batches():
        one, other = nn.functional.normalize(model(v), dim=-1).unbind(1)
        loss = nn.functional.cross_entropy(one @ other.T / 0.1, torch.arange(len(v)))
        optimizer.zero_grad()
        run.backward(loss)  # differs: batch-dependent
        run.step()
