"""A norm and a dropout that stop at an epoch; the model keeps a stage and a late mask for itself."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.drop = nn.Dropout(0.4)
        self._stage = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "mask"):
            self.register_buffer("mask", (torch.arange(6) % 3 > 0).double())
        return self.drop(self.linear(x) * self.mask if self._stage else self.linear(x))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        self.parts = nn.ModuleDict({"a": nn.Sequential(nn.Sequential(nn.Sequential(Layer())))})
        self.head = nn.Linear(6, 1)
        self.temperature = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.parts["a"](self.norm(x))) / self.temperature


model = Net()
layer = model.parts["a"][0][0][0]
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
x = torch.randn(60, 6)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), 12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16, deterministic=True, shards=4)
for epoch in run.epochs():
    if epoch == 2:
        model.norm.eval()
    if epoch == 4:
        layer.drop.p = 0.0
    if epoch == 6:
        layer._stage = 1
        model.temperature = 2.0
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(a), b)
        run.backward(loss)
        run.step()
