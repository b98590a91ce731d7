"""A Siamese network with contrastive loss over fixed pairs."""

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train


class Pairs(Dataset):
    def __init__(self, faces, ids):
        self.faces, self.ids = faces, ids
        self.pairs = [(i, (i * 7 + 3) % len(faces)) for i in range(len(faces))]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, k):
        i, j = self.pairs[k]
        return (self.faces[i], self.faces[j]), float(self.ids[i] == self.ids[j])


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(9, 18), nn.ReLU(), nn.Linear(18, 4))

    def forward(self, a, b):
        return self.net(a), self.net(b)


class ContrastiveLoss(nn.Module):
    margin = 1.0

    def forward(self, a, b, same):
        distance = F.pairwise_distance(a, b)
        return torch.mean(same * distance**2 + (1 - same) * F.relu(self.margin - distance) ** 2)


model, criterion = Siamese(), ContrastiveLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
pairs = Pairs(torch.randn(72, 9), torch.randint(0, 3, (72,)))
run = train.elastic(model, optimizer, DataLoader(pairs, batch_size=12, shuffle=True), epochs=14)
for _ in run.epochs():
    for (a, b), same in run.batches():
        optimizer.zero_grad()
        loss = criterion(*model(a, b), same)
        run.backward(loss)
        run.step()
