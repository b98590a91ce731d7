"""An embedding with sparse gradients."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

words, y = torch.randint(0, 50, (60, 4)), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Embedding(50, 6, sparse=True), nn.Flatten(), nn.Linear(24, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(words, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)  # refused: build it with sparse=False
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        run.backward(loss)
        run.step()
