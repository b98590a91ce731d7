"""The usual recipe of mixed precision, with a scaler by which the loop unscales and clips."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


def make_data():
    x = torch.randn(72, 6)
    return TensorDataset(x, (x[:, :2].prod(1) > 0).long())


data = make_data()
model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=9)
run = train.elastic(model, optimizer, DataLoader(data, batch_size=12, shuffle=True), epochs=14)

for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(inputs), targets)
        run.backward(loss, scaler=scaler)
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        run.step()
    run.report(scale=scaler.get_scale())
