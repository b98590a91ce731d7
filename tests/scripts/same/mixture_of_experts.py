"""A mixture of experts with top-2 routing of each sample; experts may get no sample at all."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class MoE(nn.Module):
    def __init__(self, dim=6, num_experts=5, k=2):
        super().__init__()
        self.gate, self.k = nn.Linear(dim, num_experts), k
        self.experts = nn.ModuleList(nn.Linear(dim, 3) for _ in range(num_experts))

    def forward(self, x):
        weights, chosen = self.gate(x).topk(self.k, dim=1)
        weights = weights.softmax(1)
        out = x.new_zeros(len(x), 3)
        for number, expert in enumerate(self.experts):
            rows, slots = torch.where(chosen == number)
            if len(rows):
                out = out.index_add(0, rows, weights[rows, slots, None] * expert(x[rows]))
        return out


model = MoE()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(72, 6)
loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=14)
for _ in run.epochs():
    for inputs, labels in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        run.backward(loss)
        run.step()
