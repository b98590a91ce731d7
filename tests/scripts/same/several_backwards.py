"""Two losses with a backward pass each, whose gradients add up before one step."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

shared, left, right = nn.Linear(5, 10), nn.Linear(10, 1), nn.Linear(10, 2)
net = nn.ModuleList([shared, left, right])
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
x = torch.randn(84, 5)
loader = DataLoader(TensorDataset(x, x[:, :1].abs(), (x[:, 1] > 0).long()), batch_size=12, shuffle=True)
run = train.elastic(net, optimizer, loader, epochs=12)
for _ in run.epochs():
    for a, value, kind in run.batches():
        optimizer.zero_grad()
        loss_left = nn.functional.mse_loss(left(torch.relu(shared(a))), value)
        loss_left.backward()
        loss_right = nn.functional.cross_entropy(right(torch.relu(shared(a))), kind)
        run.backward(loss_right)
        run.step()
