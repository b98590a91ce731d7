"""A GRU that reads sequences, with gradients clipped by their norm and the norm reported."""

from tests.scripts.common import DataLoader, Dataset, nn, torch, train
from torch.nn.utils import clip_grad_norm_


class Sums(Dataset):
    """Sequences and their running sums."""

    def __init__(self, size=70, length=7):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(size, length, 1, generator=generator, dtype=torch.float64)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.x[i].cumsum(0)


class Reader(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.gru = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        states, _ = self.gru(x)
        return self.out(states)


net = Reader().double()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)
run = train.elastic(net, optimizer, DataLoader(Sums(), batch_size=12, shuffle=True), epochs=14)
for _ in run.epochs():
    largest = 0.0
    for x, y in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        run.backward(loss)
        grad_norm = clip_grad_norm_(net.parameters(), max_norm=0.25)
        run.step()
        largest = max(largest, grad_norm.item())
    run.report(grad_norm=grad_norm)
