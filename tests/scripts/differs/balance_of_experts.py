"""A mixture of experts with a loss that balances the load over the batch."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 5)
y = x[:, :3].argmax(1)
gate, experts = nn.Linear(5, 4), nn.ModuleList(nn.Linear(5, 3) for _ in range(4))
model = nn.ModuleList([gate, experts])
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        p = gate(a).softmax(1)
        out = sum(p[:, i : i + 1] * expert(a) for i, expert in enumerate(experts))
        loss = nn.functional.cross_entropy(out, b) + 4 * (p.mean(0) ** 2).sum()
        optimizer.zero_grad()
        run.backward(loss)  # differs: batch-dependent
        run.step()
