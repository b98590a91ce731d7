"""Batches that are dicts; the model takes them as keywords and returns its loss, as in transformers."""

from types import SimpleNamespace

from tests.scripts.common import DataLoader, Dataset, nn, torch, train


class Encoded(Dataset):
    def __init__(self, encodings, labels):
        self.encodings, self.labels = encodings, labels

    def __getitem__(self, idx):
        item = {key: val[idx] for key, val in self.encodings.items()}
        item["labels"] = self.labels[idx]
        return item

    def __len__(self):
        return len(self.labels)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.classifier = nn.Embedding(25, 10), nn.Linear(10, 2)

    def forward(self, input_ids, attention_mask, labels=None):
        mask = attention_mask.unsqueeze(-1)
        pooled = (self.embeddings(input_ids) * mask).sum(1) / mask.sum(1)
        logits = self.classifier(pooled)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SimpleNamespace(loss=loss, logits=logits)


ids = torch.randint(0, 25, (80, 6))
mask = (torch.arange(6) < torch.randint(2, 7, (80, 1))).double()
dataset = Encoded({"input_ids": ids, "attention_mask": mask}, torch.randint(0, 2, (80,)))
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
run = train.elastic(model, optimizer, DataLoader(dataset, batch_size=12, shuffle=True), epochs=12)
for _ in run.epochs():
    for batch in run.batches():
        batch = {k: v.to(run.device) for k, v in batch.items()}
        outputs = model(**batch)
        run.backward(outputs.loss)
        run.step()
        optimizer.zero_grad()
    with torch.no_grad():
        predictions = model(ids, mask).logits.argmax(dim=-1)
    run.report(accuracy=(predictions == dataset.labels).double().mean())
