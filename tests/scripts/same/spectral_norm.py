"""Spectral norm, whose power iteration changes buffers in each forward pass whatever the batch."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

model = nn.Sequential(
    spectral_norm(nn.Linear(8, 16)),
    nn.LeakyReLU(0.2),
    weight_norm(nn.Linear(16, 8)),
    nn.ReLU(),
    nn.Linear(8, 1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.5, 0.999))
x = torch.randn(72, 8)
loader = DataLoader(TensorDataset(x, (x[:, :1] > 0).double()), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=14)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(a), b)
        run.backward(loss)
        run.step()
