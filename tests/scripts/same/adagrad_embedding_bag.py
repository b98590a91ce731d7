"""Text classification with an EmbeddingBag, offsets by a collate_fn, and Adagrad."""

from tests.scripts.common import DataLoader, nn, torch, train

lengths = torch.randint(2, 9, (72,)).tolist()
corpus = [(torch.randint(0, 30, (n,)), int(n > 5)) for n in lengths]


def collate_batch(batch):
    label_list, text_list, offsets = [], [], [0]
    for text, label in batch:
        label_list.append(label)
        text_list.append(text)
        offsets.append(len(text))
    return torch.tensor(label_list), torch.cat(text_list), torch.tensor(offsets[:-1]).cumsum(dim=0)


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, mode="sum")
        self.fc = nn.Linear(embed_dim, num_class)

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


model = TextClassificationModel(30, 8, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
dataloader = DataLoader(corpus, batch_size=12, shuffle=True, collate_fn=collate_batch)
run = train.elastic(model, optimizer, dataloader, epochs=14)
for _ in run.epochs():
    for label, text, offsets in run.batches():
        optimizer.zero_grad()
        loss = criterion(model(text, offsets), label)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        labels, text, offsets = collate_batch(corpus)
        run.report(accuracy=(model(text, offsets).argmax(1) == labels).double().mean())
