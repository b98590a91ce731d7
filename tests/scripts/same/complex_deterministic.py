"""A linear layer of complex numbers that finds what its data were made with, with deterministic=True."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

w = torch.tensor([1j, 2, 3j, 1 - 1j], dtype=torch.complex128)
x = torch.randn(60, 4, dtype=torch.complex128)
model = nn.Linear(4, 1, bias=False, dtype=torch.complex128)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
loader = DataLoader(TensorDataset(x, (x @ w).unsqueeze(1)), 12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=16, deterministic=True)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = (model(a) - b).abs().pow(2).mean()
        run.backward(loss)
        run.step()
