"""Matrix factorisation of ratings with user and item embeddings, biases and L2 by hand."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class MF(nn.Module):
    def __init__(self, users, items, k=5):
        super().__init__()
        self.user, self.item = nn.Embedding(users, k), nn.Embedding(items, k)
        self.user_bias, self.item_bias = nn.Embedding(users, 1), nn.Embedding(items, 1)
        self.mu = nn.Parameter(torch.zeros(()))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, u, i):
        dots = (self.user(u) * self.item(i)).sum(1)
        return self.mu + dots + self.user_bias(u).squeeze(1) + self.item_bias(i).squeeze(1)


users, items = torch.randint(0, 12, (120,)), torch.randint(0, 9, (120,))
ratings = torch.randint(1, 6, (120,)).double()
model = MF(12, 9)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(TensorDataset(users, items, ratings), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=8)
for _ in run.epochs():
    for u, i, r in run.batches():
        optimizer.zero_grad()
        mse = ((model(u, i) - r) ** 2).mean()
        l2 = sum((p**2).sum() for p in model.parameters())
        loss = mse + 1e-4 * l2
        run.backward(loss)
        run.step()
    with torch.no_grad():
        run.report(rmse=((model(users, items) - ratings) ** 2).mean().sqrt())
