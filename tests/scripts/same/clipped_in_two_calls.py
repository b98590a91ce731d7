"""A small network clipped by torch's two newer functions, with the norm of all gradients logged."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 3)
target = (x**2).sum(1, keepdim=True)
model = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
run = train.elastic(model, optimizer, DataLoader(TensorDataset(x, target), batch_size=12), epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.smooth_l1_loss(model(a), b)
        run.backward(loss)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        norm = nn.utils.get_total_norm(grads)
        nn.utils.clip_grads_with_norm_(model.parameters(), 0.3, norm)
        run.step()
        if run.steps % 5 == 0:
            run.report(norm=norm.item())
