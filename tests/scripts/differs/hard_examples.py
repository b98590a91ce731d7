"""Only the harder half of the batch is learnt from."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

torch.manual_seed(0)  # with others, the harder halves of both parts may be that of the whole
x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        losses = nn.functional.cross_entropy(model(a), b, reduction="none")
        loss = losses.topk(max(1, len(losses) // 2)).values.mean()
        optimizer.zero_grad()
        run.backward(loss)  # differs: batch-dependent
        run.step()
