"""A residual network with batch norm and dropout, with deterministic=True."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


class BasicBlock(nn.Module):
    def __init__(self, planes):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(planes, planes, 3, padding=1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False), nn.BatchNorm2d(planes)
        self.drop = nn.Dropout2d(0.2)

    def forward(self, x):
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(x + self.drop(self.bn2(self.conv2(out))))


net = nn.Sequential(
    nn.Conv2d(3, 4, 3), BasicBlock(4), BasicBlock(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
)
loader = DataLoader(TensorDataset(torch.randn(72, 3, 7, 7), torch.randint(0, 3, (72,))), 12, shuffle=True)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[30, 60], gamma=0.1)
run = train.elastic(net, opt, loader, epochs=14, scheduler=scheduler, deterministic=True, shards=4)
for _ in run.epochs():
    net.train()
    for x, y in run.batches():
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        run.backward(loss)
        run.step()
    net.eval()
    with torch.no_grad():
        run.report(val_loss=sum(F.cross_entropy(net(x), y).item() for x, y in loader))
