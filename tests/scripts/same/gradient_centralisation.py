"""Gradient centralisation by hooks on the parameters, with label smoothing in a class of its own."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

x = torch.randn(60, 10)
y = x[:, :4].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True)


class LabelSmoothing(nn.Module):
    def __init__(self, classes, smoothing=0.1):
        super().__init__()
        self.confidence, self.smoothing, self.classes = 1.0 - smoothing, smoothing, classes

    def forward(self, scores, target):
        scores = scores.log_softmax(dim=-1)
        with torch.no_grad():
            wanted = torch.full_like(scores, self.smoothing / (self.classes - 1))
            wanted.scatter_(1, target.unsqueeze(1), self.confidence)
        return torch.mean(torch.sum(-wanted * scores, dim=-1))


model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 4))
for parameter in model.parameters():
    if parameter.dim() > 1:
        parameter.register_hook(lambda g: g - g.mean(dim=tuple(range(1, g.dim())), keepdim=True))
criterion = LabelSmoothing(4)
optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3, momentum=0.9)

run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for inputs, targets in run.batches():
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(inputs), targets)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        run.report(accuracy=(model(x).argmax(1) == y).double().mean().item())
