"""Detection with lists of boxes: the loss is a mean over boxes, and their number is the weight."""

import sys

from tests.scripts.common import DataLoader, Dataset, nn, torch, train


class Scenes(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(1)
        self.images = torch.randn(n, 1, 6, 6, generator=g)
        self.boxes = [torch.rand(int(torch.randint(0, 4, (), generator=g)), 4, generator=g) for _ in range(n)]

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], {"boxes": self.boxes[i]}


def collate(batch):
    images, targets = tuple(zip(*batch))
    return torch.stack(images), targets


class Detector(nn.Module):
    def __init__(self, slots=3):
        super().__init__()
        self.slots = slots
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, slots * 4))

    def forward(self, images):
        return self.net(images).view(-1, self.slots, 4)

    def loss(self, images, targets):
        predicted = self(images)
        num_boxes = sum(len(t["boxes"]) for t in targets)
        total = sum(
            nn.functional.smooth_l1_loss(p[: len(t["boxes"])], t["boxes"], reduction="sum")
            for p, t in zip(predicted, targets)
        )
        return total / max(num_boxes, 1), num_boxes


def main(out):
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3)
    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Scenes(60), batch_size=12, shuffle=True, collate_fn=collate)
    run = train.elastic(model, optimizer, loader, epochs=16)
    for _ in run.epochs():
        for images, targets in run.batches():
            loss, num_boxes = model.loss(images, targets)
            optimizer.zero_grad()
            run.backward(loss, weight=num_boxes)
            run.step()
    if run.is_leader:
        torch.save(model.state_dict(), out)


if __name__ == "__main__":
    main(sys.argv[1])
