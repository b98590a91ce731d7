"""An exponential moving average of the weights, a class with `state_dict` in `state`."""

import sys

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class EMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {k: v.detach().clone() for k, v in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model):
        for k, v in model.state_dict().items():
            self.shadow[k].mul_(self.decay).add_(v, alpha=1 - self.decay)

    def state_dict(self):
        return self.shadow

    def load_state_dict(self, state):
        self.shadow = {k: v.clone() for k, v in state.items()}


model = nn.Sequential(nn.Linear(6, 16), nn.ELU(), nn.Linear(16, 1))
ema = EMA(model, 0.95)
x = torch.randn(72, 6)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
loader = DataLoader(TensorDataset(x, x.norm(dim=1, keepdim=True)), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=14, state={"ema": ema})
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = (model(a) - b).abs().mean()
        run.backward(loss)
        run.step()
        if run.has_stepped:
            ema.update(model)
if run.is_leader:
    torch.save(ema.state_dict(), sys.argv[1])
