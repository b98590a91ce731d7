"""A transformer encoder with dropout, and noise on its inputs drawn in the loop, with deterministic=True."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train

layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.1, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(48, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
dataset = TensorDataset(torch.randn(60, 6, 8), torch.randint(0, 2, (60,)))
run = train.elastic(model, optimizer, DataLoader(dataset, 12, shuffle=True), epochs=16, deterministic=True)
for _ in run.epochs():
    for x, y in run.batches():
        x = x + 0.05 * torch.randn_like(x)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        run.backward(loss)
        run.step()
