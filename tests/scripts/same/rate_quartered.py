"""A transformer whose rate, a global, is quartered where the validation loss did not fall."""

import math

from tests.scripts.common import DataLoader, Dataset, elastic, nn, torch

ntokens, bptt = 20, 8


class PositionalEncoding(nn.Module):
    def __init__(self, d, max_len=50):
        super().__init__()
        pe = torch.zeros(max_len, d)
        position = torch.arange(0, max_len).double().unsqueeze(1)
        div = torch.exp(torch.arange(0, d, 2).double() * (-math.log(10000.0) / d))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class TransformerModel(nn.Module):
    def __init__(self, ninp=8):
        super().__init__()
        self.src_mask = None
        self.enc = nn.Embedding(ntokens, ninp)
        self.pos = PositionalEncoding(ninp)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(ninp, 2, 16, 0.0, batch_first=True), 1)
        self.dec = nn.Linear(ninp, ntokens)
        self.ninp = ninp

    def forward(self, src):
        if self.src_mask is None or self.src_mask.size(0) != src.size(1):
            self.src_mask = torch.log(torch.tril(torch.ones(src.size(1), src.size(1))))
        out = self.layers(self.pos(self.enc(src) * math.sqrt(self.ninp)), mask=self.src_mask)
        return torch.log_softmax(self.dec(out), -1)


data = torch.randint(0, ntokens, (700,))
val = torch.randint(0, ntokens, (120,))


class Blocks(Dataset):
    def __init__(self, d):
        self.d = d

    def __len__(self):
        return (len(self.d) - 1) // bptt

    def __getitem__(self, i):
        return self.d[i * bptt : (i + 1) * bptt], self.d[i * bptt + 1 : (i + 1) * bptt + 1]


train_loader = DataLoader(Blocks(data), batch_size=12)
val_loader = DataLoader(Blocks(val), batch_size=12)
model = TransformerModel()
criterion = nn.NLLLoss()
lr = 2.0
best_val_loss = None
optimizer = torch.optim.SGD(model.parameters(), lr=lr)
run = elastic(model, optimizer, train_loader, epochs=20)


def evaluate():
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in val_loader:
            total += len(x) * criterion(model(x).view(-1, ntokens), y.view(-1)).item()
    return total / len(val_loader.dataset)


def train():
    model.train()
    total_loss = 0.0
    for batch, (x, y) in enumerate(run.batches()):
        model.zero_grad()
        loss = criterion(model(x).view(-1, ntokens), y.reshape(-1))
        run.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        run.step()
        total_loss += loss.item()
        if batch % 3 == 0 and batch > 0:
            print(f"| ms/batch | loss {total_loss / 3:5.2f} | ppl {math.exp(total_loss / 3):8.2f}")
            total_loss = 0


try:
    for _epoch in run.epochs():
        train()
        val_loss = evaluate()
        if not best_val_loss or val_loss < best_val_loss:
            best_val_loss = val_loss
        else:
            lr /= 4.0
            for g in optimizer.param_groups:
                g["lr"] = lr
        run.report(val_loss=val_loss, lr=lr)
except KeyboardInterrupt:
    print("Exiting from training early")
