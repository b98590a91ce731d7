"""A shared trunk with three heads, whose losses are added with fixed weights."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 20), nn.SiLU(), nn.LayerNorm(20))
        self.heads = nn.ModuleDict(
            {"age": nn.Linear(20, 1), "city": nn.Linear(20, 5), "tags": nn.Linear(20, 3)}
        )

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


x = torch.randn(60, 6)
age, city, tags = x.sum(1), torch.randint(0, 5, (60,)), (torch.rand(60, 3) > 0.5).double()
model = MultiTask()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
loader = DataLoader(TensorDataset(x, age, city, tags), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for x_, age_, city_, tags_ in run.batches():
        out = model(x_)
        losses = {
            "age": F.smooth_l1_loss(out["age"].squeeze(1), age_),
            "city": F.cross_entropy(out["city"], city_),
            "tags": F.binary_cross_entropy_with_logits(out["tags"], tags_),
        }
        total = 0.5 * losses["age"] + losses["city"] + 2.0 * losses["tags"]
        optimizer.zero_grad()
        run.backward(total)
        run.step()
