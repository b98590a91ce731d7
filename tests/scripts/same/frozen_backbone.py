"""Transfer learning: the backbone is frozen before elastic, and the optimizer has the head only."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
        )
        self.fc = nn.Linear(16, 1000)

    def forward(self, x):
        return self.fc(self.features(x))


model = Backbone()
for param in model.parameters():
    param.requires_grad = False
model.fc = nn.Linear(model.fc.in_features, 3)  # a new head, which does require gradients
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.05, momentum=0.9)
x, y = torch.randn(60, 1, 8, 8), torch.randint(0, 3, (60,))
run = train.elastic(model, optimizer, DataLoader(TensorDataset(x, y), 12, shuffle=True), epochs=16)
for _ in run.epochs():
    model.eval()  # running statistics of the frozen norms stay
    for inputs, labels in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        run.backward(loss)
        run.step()
