"""A language model over padded sentences: the loss is a mean over tokens, and their number is the weight."""

from tests.scripts.common import DataLoader, F, Subset, SubsetRandomSampler, nn, torch, train
from torch.nn.utils.rnn import pad_sequence

PAD = 0


def collate_fn(batch):
    padded = pad_sequence(batch, batch_first=True, padding_value=PAD)
    return {"input": padded[:, :-1], "target": padded[:, 1:]}


corpus = [torch.randint(1, 16, (int(n),)) for n in torch.randint(2, 10, (96,))]
train_sampler = SubsetRandomSampler(range(80))
loader = DataLoader(corpus, batch_size=12, sampler=train_sampler, collate_fn=collate_fn)
valid = collate_fn(list(Subset(corpus, range(80, 96))))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 8, padding_idx=PAD)
        self.rnn, self.out = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 16)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


def token_loss(model, batch):
    logits = model(batch["input"])
    return F.cross_entropy(logits.flatten(0, 1), batch["target"].flatten(), ignore_index=PAD)


model = LM()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
run = train.elastic(model, optimizer, loader, epochs=12)
for _ in run.epochs():
    for batch in run.batches():
        optimizer.zero_grad()
        loss = token_loss(model, batch)
        run.backward(loss, weight=(batch["target"] != PAD).sum())
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        run.step()
    with torch.no_grad():
        run.report(valid_loss=token_loss(model, valid))
