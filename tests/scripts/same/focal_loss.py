"""Focal loss for rare positives, a mean over samples."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


def focal_loss(logits, targets, alpha=0.25, gamma=2.0):
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = torch.exp(-ce)
    alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
    return (alpha_t * (1 - p_t) ** gamma * ce).mean()


x = torch.randn(96, 6)
y = (x[:, 0] + x[:, 1] > 1.5).double()
model = nn.Sequential(nn.Linear(6, 18), nn.LeakyReLU(0.1), nn.Linear(18, 1))
nn.init.constant_(model[-1].bias, -2.0)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
run = train.elastic(model, optimizer, DataLoader(TensorDataset(x, y), 12, shuffle=True), epochs=10)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = focal_loss(model(inputs).squeeze(-1), targets)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        found = (model(x).squeeze(-1) > 0) & (y > 0)
    run.report(recall=found.sum() / y.sum())
