"""Forward-forward: each layer learns by itself, with an optimizer of its own."""

import sys

from tests.scripts.common import DataLoader, TensorDataset, elastic, nn, torch


def get_y_neg(y):
    return (y + 1 + torch.arange(len(y)) % 9) % 10


def overlay_y_on_x(x, y):
    x_ = x.clone()
    x_[:, :10] *= 0.0
    x_[range(x.shape[0]), y] = x.max()
    return x_


class Layer(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o)
        self.relu = nn.ReLU()
        self.opt = torch.optim.Adam(self.parameters(), lr=0.02)
        self.threshold = 1.0

    def forward(self, x):
        return self.relu(
            torch.mm(x / (x.norm(2, 1, keepdim=True) + 1e-4), self.weight.T) + self.bias.unsqueeze(0)
        )

    def train_batch(self, x_pos, x_neg, run):
        g_pos = self.forward(x_pos).pow(2).mean(1)
        g_neg = self.forward(x_neg).pow(2).mean(1)
        loss = torch.log(1 + torch.exp(torch.cat([-g_pos + self.threshold, g_neg - self.threshold]))).mean()
        self.opt.zero_grad()
        run.backward(loss)
        run.step(self.opt)
        return self.forward(x_pos).detach(), self.forward(x_neg).detach()


class Net(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = nn.ModuleList(Layer(a, b) for a, b in zip(dims, dims[1:]))

    def predict(self, x):
        out = []
        for label in range(10):
            h = overlay_y_on_x(x, torch.full((len(x),), label))
            goodness = 0
            for layer in self.layers:
                h = layer(h)
                goodness = goodness + h.pow(2).mean(1)
            out.append(goodness)
        return torch.stack(out, 1).argmax(1)


x, y = torch.rand(72, 16), torch.randint(0, 10, (72,))
yneg = (y + torch.randint(1, 10, (72,))) % 10
net = Net([16, 12, 10])
run = elastic(
    {str(i): layer for i, layer in enumerate(net.layers)},
    {str(i): layer.opt for i, layer in enumerate(net.layers)},
    DataLoader(TensorDataset(x, y, yneg), batch_size=12, shuffle=True),
    epochs=20,
)
for _e in run.epochs():
    for a, b, n in run.batches():
        h_pos = a.clone()
        h_pos[:, :10] = 0
        h_pos[range(len(b)), b] = 1.0
        h_neg = a.clone()
        h_neg[:, :10] = 0
        h_neg[range(len(b)), n] = 1.0
        for _i, layer in enumerate(net.layers):
            h_pos, h_neg = layer.train_batch(h_pos, h_neg, run)
    run.report(accuracy=net.predict(x).eq(y).float().mean().item())
if run.is_leader:
    torch.save(net.state_dict(), sys.argv[1])
