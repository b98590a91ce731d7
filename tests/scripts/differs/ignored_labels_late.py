"""A mean over tokens, none of which is padding in the first batches: samples come by their length."""

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

words = torch.randint(16, (60, 8))
labels = words.roll(-1, 1).masked_fill(
    torch.arange(8) >= torch.arange(68, 8, -1).clamp(max=48)[:, None] // 6, -100
)
model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
run = train.elastic(model, optimizer, DataLoader(TensorDataset(words, labels), batch_size=12), epochs=16)
for _ in run.epochs():
    for a, b in run.batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(a).flatten(0, 1), b.flatten())
        run.backward(loss)  # differs: weighted-mean
        run.step()
