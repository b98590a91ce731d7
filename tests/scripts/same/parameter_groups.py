"""AdamW with groups of parameters: no weight decay on biases and norms, another rate for the head."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(7, 21), nn.LayerNorm(21), nn.GELU(), nn.Linear(21, 21))
        self.head = nn.Linear(21, 2)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


def build_optimizer(model, lr, wd):
    decay, no_decay, head = [], [], []
    for name, p in model.named_parameters():
        if name.startswith("head"):
            head.append(p)
        elif p.ndim < 2:
            no_decay.append(p)
        else:
            decay.append(p)
    return torch.optim.AdamW(
        [
            {"params": decay, "weight_decay": wd},
            {"params": no_decay, "weight_decay": 0.0},
            {"params": head, "weight_decay": wd, "lr": 10 * lr},
        ],
        lr=lr,
    )


model = Model()
optimizer = build_optimizer(model, 1e-3, 0.05)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=80)
data = TensorDataset(torch.randn(66, 7), torch.randint(0, 2, (66,)))
loader = DataLoader(data, batch_size=12, shuffle=True, drop_last=True)
run = train.elastic(model, optimizer, loader, epochs=16, scheduler=scheduler)
for _ in run.epochs():
    for x, y in run.batches():
        loss = nn.functional.cross_entropy(model(x), y)
        run.backward(loss)
        run.step()
        optimizer.zero_grad()
