"""The model counts in a large buffer that its state_dict leaves out."""

from tests.scripts.common import F, nn, torch, train
from tests.scripts.regression import loader
from tests.scripts.regression import model as layers


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers
        self.register_buffer("count", torch.zeros(20_000), persistent=False)

    def forward(self, x):
        if self.training:
            self.count += 1
        return self.layers(x) * (1 + 1 / (1 + self.count[-1]))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad()
        loss = F.mse_loss(model(inputs), targets)
        run.backward(loss)
        run.step()
