"""OneCycleLR, given to elastic, which also moves the momentum."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train
from torch.optim.lr_scheduler import OneCycleLR

EPOCHS = 14
dataset = TensorDataset(torch.randn(72, 6), torch.randint(0, 3, (72,)))
dl = DataLoader(dataset, 12, shuffle=True)
net = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.GroupNorm(4, 24), nn.Linear(24, 3))
sgd = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
policy = OneCycleLR(sgd, max_lr=0.05, epochs=EPOCHS, steps_per_epoch=len(dl))
run = train.elastic(net, sgd, dl, epochs=EPOCHS, scheduler=policy)
for epoch in run.epochs():
    for xb, yb in run.batches():
        sgd.zero_grad()
        loss = nn.CrossEntropyLoss()(net(xb), yb)
        run.backward(loss)
        run.step()
    run.report(epoch=epoch, lr=sgd.param_groups[0]["lr"], momentum=sgd.param_groups[0]["momentum"])
