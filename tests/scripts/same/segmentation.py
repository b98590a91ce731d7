"""A small U-Net; cross-entropy over all pixels and a Dice loss of each picture."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        d1 = F.relu(self.down1(x))
        d2 = F.relu(self.down2(F.max_pool2d(d1, 2)))
        return self.out(torch.cat([d1, self.up(d2)], dim=1))


def dice_loss(logits, masks, eps=1.0):
    p = logits.softmax(1)[:, 1]
    overlap, total = (p * masks).sum((1, 2)), p.sum((1, 2)) + masks.sum((1, 2))
    return (1 - (2 * overlap + eps) / (total + eps)).mean()


images = torch.randn(60, 1, 8, 8)
masks = (F.avg_pool2d(images, 3, 1, 1)[:, 0] > 0).long()
unet = UNet()
optimizer = torch.optim.RMSprop(unet.parameters(), lr=1e-3, weight_decay=1e-8, momentum=0.9)
run = train.elastic(unet, optimizer, DataLoader(TensorDataset(images, masks), 12, shuffle=True), epochs=16)
for _ in run.epochs():
    for image, mask in run.batches():
        logits = unet(image)
        loss = F.cross_entropy(logits, mask) + dice_loss(logits, mask)
        optimizer.zero_grad(set_to_none=True)
        run.backward(loss)
        run.step()
