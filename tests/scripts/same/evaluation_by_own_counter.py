"""The script's own count of iterations says when to evaluate, and the best accuracy sets the rate."""

import time

from tests.scripts.common import DataLoader, TensorDataset, elastic, nn, torch

p, h, y = torch.randint(0, 30, (80, 7)), torch.randint(0, 30, (80, 5)), torch.randint(0, 3, (80,))
train_iter = DataLoader(TensorDataset(p[:64], h[:64], y[:64]), batch_size=12, shuffle=True)
dev_iter = DataLoader(TensorDataset(p[64:], h[64:], y[64:]), batch_size=8)


class SNLIClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 6)
        self.proj = nn.Linear(6, 6)
        self.rnn = nn.LSTM(6, 8, bidirectional=True, batch_first=True)
        self.out = nn.Sequential(nn.Linear(32, 12), nn.ReLU(), nn.Linear(12, 3))

    def enc(self, x):
        _, (ht, _) = self.rnn(torch.relu(self.proj(self.embed(x).detach())))
        return ht[-2:].transpose(0, 1).contiguous().view(x.size(0), -1)

    def forward(self, p, h):
        return self.out(torch.cat([self.enc(p), self.enc(h)], 1))


model = SNLIClassifier()
model.embed.weight.requires_grad = False
criterion = nn.CrossEntropyLoss()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
iterations = 0
start = time.time()
best_dev_acc = -1
run = elastic(model, opt, train_iter, epochs=20)
for epoch in run.epochs():
    n_correct, n_total = 0, 0
    for _batch_idx, (a, b, label) in enumerate(run.batches()):
        model.train()
        opt.zero_grad()
        iterations += 1
        answer = model(a, b)
        n_correct += (torch.max(answer, 1)[1].view(label.size()) == label).sum().item()
        n_total += len(label)
        train_acc = 100.0 * n_correct / n_total
        loss = criterion(answer, label)
        run.backward(loss)
        run.step()
        if iterations % 5 == 0:
            model.eval()
            n_dev_correct = 0
            dev_loss = 0
            with torch.no_grad():
                for a, b, label in dev_iter:
                    answer = model(a, b)
                    n_dev_correct += (answer.argmax(1) == label).sum().item()
                    dev_loss += criterion(answer, label).item() * len(label)
            dev_acc = 100.0 * n_dev_correct / len(dev_iter.dataset)
            run.report(dev_acc=dev_acc, dev_loss=dev_loss)
            if dev_acc > best_dev_acc:
                best_dev_acc = dev_acc
                for g in opt.param_groups:
                    g["lr"] *= 0.9
        elif iterations % 4 == 0:
            print(f"{time.time() - start} {epoch} {iterations} {loss.item()} {train_acc}")
