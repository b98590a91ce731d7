"""Graph attention over one graph; batches are the nodes to learn from."""

from tests.scripts.common import DataLoader, F, elastic, nn, torch


class GraphAttentionLayer(nn.Module):
    def __init__(self, i, o, heads, concat=False):
        super().__init__()
        self.h, self.o, self.concat = heads, o, concat
        self.W = nn.Parameter(torch.empty(i, o * heads))
        self.a = nn.Parameter(torch.empty(heads, 2 * o, 1))
        nn.init.xavier_normal_(self.W)
        nn.init.xavier_normal_(self.a)

    def forward(self, h, adj):
        n = h.shape[0]
        ht = torch.mm(h, self.W).view(n, self.h, self.o).permute(1, 0, 2)
        s = torch.matmul(ht, self.a[:, : self.o])
        t = torch.matmul(ht, self.a[:, self.o :])
        e = F.leaky_relu(s + t.mT, 0.2)
        att = torch.where(adj > 0, e, -9e15 * torch.ones_like(e))
        att = F.softmax(att, -1)
        hp = torch.matmul(att, ht)
        return hp.permute(1, 0, 2).reshape(n, -1) if self.concat else hp.mean(0)


class GAT(nn.Module):
    def __init__(self):
        super().__init__()
        self.g1 = GraphAttentionLayer(5, 4, 2, True)
        self.g2 = GraphAttentionLayer(8, 3, 1)

    def forward(self, x, adj):
        return F.log_softmax(self.g2(F.elu(self.g1(x, adj)), adj), 1)


features = torch.randn(90, 5)
labels = torch.randint(0, 3, (90,))
adj = ((torch.rand(90, 90) > 0.9).double() + torch.eye(90)).clamp(max=1)
idx = torch.randperm(90)
idx_train, idx_val = idx[:60], idx[60:]


def train_iter(epoch, model, optimizer, criterion, run):
    model.train()
    for nodes in run.batches():
        optimizer.zero_grad()
        output = model(features, adj)
        loss = criterion(output[nodes], labels[nodes])
        run.backward(loss)
        run.step()
    return test(model, criterion)


def test(model, criterion):
    model.eval()
    with torch.no_grad():
        out = model(features, adj)
        return criterion(out[idx_val], labels[idx_val]).item(), (
            out[idx_val].argmax(1) == labels[idx_val]
        ).float().mean().item()


def main():
    model = GAT()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
    criterion = nn.NLLLoss()
    run = elastic(model, optimizer, DataLoader(idx_train, batch_size=12, shuffle=True), epochs=20)
    for epoch in run.epochs():
        loss, accuracy = train_iter(epoch + 1, model, optimizer, criterion, run)
        run.report(val_loss=loss, val_acc=accuracy)


main()
