"""word2vec: skip-grams with negative samples that the dataset draws by weight."""

from tests.scripts.common import DataLoader, Dataset, F, nn, torch, train

NUM_WORDS, NUM_NEGATIVE = 20, 4


class SkipGrams(Dataset):
    def __init__(self, corpus, window=2):
        counts = torch.bincount(corpus, minlength=NUM_WORDS).double()
        self.noise = counts**0.75
        n = len(corpus)
        self.pairs = [
            (int(corpus[i]), int(corpus[j]))
            for i in range(0, n, 2)
            for j in range(max(0, i - window), min(n, i + window + 1))
            if i != j
        ]

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, k):
        centre, context = self.pairs[k]
        return centre, context, torch.multinomial(self.noise, NUM_NEGATIVE, replacement=True)


class Word2Vec(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.centre, self.context = nn.Embedding(NUM_WORDS, dim), nn.Embedding(NUM_WORDS, dim)

    def forward(self, centre, context, negatives):
        c = self.centre(centre)
        positive = F.logsigmoid((c * self.context(context)).sum(1))
        negative = F.logsigmoid(-(self.context(negatives) @ c.unsqueeze(2)).squeeze(2)).sum(1)
        return -(positive + negative).mean()


model = Word2Vec()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
loader = DataLoader(SkipGrams(torch.randint(0, NUM_WORDS, (80,))), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, steps=80)
for _ in run.epochs():
    for batch in run.batches():
        optimizer.zero_grad()
        loss = model(*batch)
        run.backward(loss)
        run.step()
