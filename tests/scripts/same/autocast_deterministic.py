"""Mixed precision by autocast to bfloat16, with deterministic=True."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(84, 10)
loader = DataLoader(TensorDataset(x, x.mean(1, keepdim=True)), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=12, deterministic=True)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device_type=run.device.type, dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
