"""A GRU language model whose decoder shares the weights of its embedding."""

from tests.scripts.common import DataLoader, nn, torch, train


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.GRU(ninp, ninp, batch_first=True)
        self.decoder = nn.Linear(ninp, ntoken)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens):
        return self.decoder(self.rnn(self.encoder(tokens))[0])


sequences = torch.randint(0, 13, (72, 9))
model = RNNModel(13, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
run = train.elastic(model, optimizer, DataLoader(sequences, batch_size=12, shuffle=True), epochs=14)
for _ in run.epochs():
    for seq in run.batches():
        model.zero_grad()
        logits = model(seq[:, :-1])
        loss = nn.functional.cross_entropy(logits.transpose(1, 2), seq[:, 1:])
        loss = run.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        run.step()
    run.report(perplexity=torch.exp(loss))
