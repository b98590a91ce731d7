"""Accumulation of gradients left to Swell: at most three samples go through the model together.

The mean loss that `run.backward` returns is kept, as the how-to shows.
"""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

data = TensorDataset(torch.randn(70, 3, 6, 6), torch.randint(0, 2, (70,)))
net = nn.Sequential(
    nn.Conv2d(3, 6, 3),
    nn.InstanceNorm2d(6),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(6, 2),
)
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
run = train.elastic(net, opt, DataLoader(data, batch_size=12, shuffle=True), epochs=14, max_local_batch=3)
for _ in run.epochs():
    for images, labels in run.batches():
        loss = nn.functional.cross_entropy(net(images), labels)
        mean = run.backward(loss)
        run.step()
        if run.has_stepped:
            opt.zero_grad()
