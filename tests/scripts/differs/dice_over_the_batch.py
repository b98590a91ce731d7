"""A Dice loss over all pixels of the batch."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 1, 6, 6)
masks = (x > 0.5).double()
model = nn.Conv2d(1, 1, 3, padding=1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, masks), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        p = model(a).sigmoid()
        loss = 1 - (2 * (p * b).sum() + 1) / (p.sum() + b.sum() + 1)
        optimizer.zero_grad()
        run.backward(loss)  # differs: batch-dependent
        run.step()
