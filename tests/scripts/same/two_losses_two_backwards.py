"""Two tasks on one trunk, each with a backward pass of its own, and a penalty with a third."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class TwoTasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(5, 12), nn.ReLU())
        self.kind = nn.Linear(12, 3)
        self.size = nn.Linear(12, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.kind(h), self.size(h)


x = torch.randn(75, 5)
kind, size = x[:, :3].argmax(1), x.norm(dim=1, keepdim=True)
model = TwoTasks()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
loader = DataLoader(TensorDataset(x, kind, size), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=12)
for _ in run.epochs():
    for a, k, s in run.batches():
        optimizer.zero_grad()
        guessed_kind, guessed_size = model(a)
        loss_kind = nn.functional.cross_entropy(guessed_kind, k)
        loss_size = nn.functional.l1_loss(guessed_size, s)
        loss_kind.backward(retain_graph=True)
        (0.5 * loss_size).backward()
        penalty = 1e-3 * sum(p.abs().sum() for p in model.parameters())
        run.backward(penalty)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        run.step()
    with torch.no_grad():
        run.report(error=nn.functional.l1_loss(model(x)[1], size).item())
