"""A convolutional network; the dataset augments with torch's, Python's and NumPy's generators."""

import random

from tests.scripts.common import DataLoader, Dataset, F, nn, np, torch, train


class Pictures(Dataset):
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        img = self.images[idx]
        if random.random() < 0.5:
            img = torch.flip(img, dims=[2])
        top, left = np.random.randint(0, 3, size=2)
        img = F.pad(img, (1, 1, 1, 1))[:, top : top + 8, left : left + 8]
        img = img * (1 + 0.1 * torch.randn(1)) + 0.05 * torch.randn_like(img)
        return img, self.labels[idx]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1)
        self.fc = nn.Linear(8 * 2 * 2, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(42)
    images, labels = torch.randn(72, 3, 8, 8), torch.randint(0, 4, (72,))
    loader = DataLoader(Pictures(images, labels), batch_size=12, shuffle=True)
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    run = train.elastic(net, opt, loader, epochs=14)
    for _ in run.epochs():
        for x, y in run.batches():
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            run.backward(loss)
            run.step()
        with torch.no_grad():
            run.report(train_accuracy=(net(images).argmax(1) == labels).double().mean())
