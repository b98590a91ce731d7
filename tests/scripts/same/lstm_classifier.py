"""An LSTM that classifies sequences of one length by its last output."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch

import swell.train as st


class SentimentLSTM(nn.Module):
    def __init__(self, vocab, embed=8, hidden=12):
        super().__init__()
        self.embedding = nn.Embedding(vocab, embed, padding_idx=0)
        self.lstm = nn.LSTM(embed, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, tokens):
        out, _ = self.lstm(self.embedding(tokens))
        return self.head(out[:, -1]).squeeze(-1)


reviews = torch.randint(0, 20, (84, 7))
sentiment = (reviews.sum(1) > 66).double()
train_dl = DataLoader(TensorDataset(reviews, sentiment), batch_size=12, shuffle=True)
model = SentimentLSTM(20)
optim = torch.optim.Adam(model.parameters(), lr=5e-3)
bce = nn.BCEWithLogitsLoss()

run = st.elastic(model, optim, train_dl, epochs=12)
for epoch in run.epochs():
    for xb, yb in run.batches():
        optim.zero_grad()
        loss = bce(model(xb), yb)
        run.backward(loss)
        run.step()
    with torch.no_grad():
        run.report(accuracy=((model(reviews) > 0) == (sentiment > 0)).double().mean().item(), epoch=epoch)
