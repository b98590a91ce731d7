"""Mixup by sample: the dataset draws the partner and the weight with NumPy's global generator."""

from tests.scripts.common import DataLoader, Dataset, nn, np, torch, train


class Mixup(Dataset):
    def __init__(self, x, y, num_classes, alpha=0.4):
        self.x, self.y, self.alpha = x, torch.eye(num_classes)[y], alpha

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        j, lam = np.random.randint(len(self)), np.random.beta(self.alpha, self.alpha)
        return lam * self.x[i] + (1 - lam) * self.x[j], lam * self.y[i] + (1 - lam) * self.y[j]


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(7)
    x, y = torch.randn(84, 5), torch.randint(0, 3, (84,))
    model = nn.Sequential(nn.Linear(5, 32), nn.GELU(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    run = train.elastic(model, optimizer, DataLoader(Mixup(x, y, 3), batch_size=12, shuffle=True), epochs=12)
    for _ in run.epochs():
        for inputs, soft_targets in run.batches():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), soft_targets)
            run.backward(loss)
            run.step()


if __name__ == "__main__":
    main()
