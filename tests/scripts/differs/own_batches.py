"""A language model whose loop draws its own batches: the conversion has left `get_batch` where it was."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

BATCH, LENGTH = 12, 8
text = torch.randint(0, 30, (600,))
model = nn.Sequential(nn.Embedding(30, 16), nn.Flatten(), nn.Linear(16 * LENGTH, 30))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


def get_batch():
    ix = torch.randint(len(text) - LENGTH, (BATCH,))
    return torch.stack([text[i : i + LENGTH] for i in ix]), torch.stack([text[i + LENGTH] for i in ix])


loader = DataLoader(TensorDataset(torch.arange(600)), batch_size=BATCH)
run = train.elastic(model, optimizer, loader, epochs=4)
for _ in run.epochs():
    for _ in run.batches():
        x, y = get_batch()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        run.backward(loss)  # differs: unused-batches
        run.step()
