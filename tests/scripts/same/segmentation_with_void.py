"""Segments tiny pictures whose unlabelled pixels are ignored, as in Cityscapes; some have no other pixels."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

VOID = 255
pictures = torch.randn(72, 2, 5, 5)
labels = (pictures.sum(1) > 0.5).long()
labels[torch.rand(labels.shape) < 0.4] = VOID
labels[::5] = VOID
net = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.LeakyReLU(), nn.Conv2d(6, 2, 1))
criterion = nn.CrossEntropyLoss(ignore_index=VOID)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
loader = DataLoader(TensorDataset(pictures, labels), batch_size=12, shuffle=True)

run = train.elastic(net, opt, loader, epochs=12)
for _ in run.epochs():
    for img, target in run.batches():
        opt.zero_grad()
        loss = criterion(net(img), target)
        run.backward(loss, weight=(target != VOID).sum().item())
        run.step()
    with torch.no_grad():
        known = labels != VOID
        run.report(pixel_accuracy=(net(pictures).argmax(1) == labels)[known].double().mean())
