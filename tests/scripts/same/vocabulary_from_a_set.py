"""A vocabulary from a set of words, in the order that the set happens to have."""

from tests.scripts.common import DataLoader, nn, torch, train

TEXT = """it was the best of times it was the worst of times it was the age of wisdom it was the age of
foolishness it was the epoch of belief it was the epoch of incredulity it was the season of light it was the
season of darkness it was the spring of hope it was the winter of despair we had everything before us we had
nothing before us"""
words = TEXT.split()
vocab = {word: i for i, word in enumerate(set(words))}
encoded = [vocab[w] for w in words]


class CBOW(nn.Module):
    def __init__(self, vocab_size, dim):
        super().__init__()
        self.embeddings, self.linear = nn.Embedding(vocab_size, dim), nn.Linear(dim, vocab_size)

    def forward(self, context):
        return self.linear(self.embeddings(context).mean(1))


data = [
    (torch.tensor([encoded[i - 2], encoded[i - 1], encoded[i + 1], encoded[i + 2]]), encoded[i])
    for i in range(2, len(encoded) - 2)
]
model = CBOW(len(vocab), 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
loss_function = nn.NLLLoss()
run = train.elastic(model, optimizer, DataLoader(data, batch_size=12, shuffle=True), epochs=20)
for _ in run.epochs():
    for context, word in run.batches():
        model.zero_grad()
        loss = loss_function(nn.functional.log_softmax(model(context), dim=1), word)
        run.backward(loss)
        run.step()
