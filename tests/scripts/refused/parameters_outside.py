"""The optimizer also has the parameters of a second module, which elastic does not get."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x, y = torch.randn(60, 5), torch.randint(0, 3, (60,))
encoder, head = nn.Linear(5, 8), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)
run = train.elastic(encoder, optimizer, loader, epochs=16)  # refused: give elastic() one module with them all
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(encoder(a)), b)
        run.backward(loss)
        run.step()
