"""Labels of -100 are left out of the mean."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randint(0, 9, (60, 7))
lengths = torch.randint(2, 8, (60, 1))
y = x.roll(-1, 1).masked_fill(torch.arange(7) >= lengths, -100)
model = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 9))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        logits = model(a)
        loss = nn.functional.cross_entropy(logits.view(-1, 9), b.view(-1))
        run.backward(loss)  # differs: weighted-mean
        run.step()
