"""A graph convolution over a fixed graph; batches are nodes to classify."""

from tests.scripts.common import DataLoader, nn, torch, train

num_nodes = 60
edges = torch.randint(0, num_nodes, (2, 200))
adjacency = torch.zeros(num_nodes, num_nodes)
adjacency[edges[0], edges[1]] = adjacency[edges[1], edges[0]] = 1.0
adjacency += torch.eye(num_nodes)
d = adjacency.sum(1).rsqrt()
adjacency = d[:, None] * adjacency * d[None, :]
features, labels = torch.randn(num_nodes, 6), torch.randint(0, 3, (num_nodes,))


class GCN(nn.Module):
    def __init__(self, adjacency):
        super().__init__()
        self.register_buffer("adjacency", adjacency)
        self.lin1, self.lin2 = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, x):
        return self.adjacency @ self.lin2(torch.relu(self.adjacency @ self.lin1(x)))


model = GCN(adjacency)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
loader = DataLoader(range(num_nodes), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for nodes in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(features)[nodes], labels[nodes])
        run.backward(loss)
        run.step()
