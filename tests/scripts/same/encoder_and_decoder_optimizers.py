"""Translation: an encoder and a decoder with an optimizer each, which step on one loss."""

import random
import sys

from tests.scripts.common import DataLoader, F, TensorDataset, elastic, nn, torch

random.seed(1)
SOS, MAX = 0, 5
X = torch.randint(1, 12, (60, MAX))
Y = X.flip(1)


class EncoderRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.gru = nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        return self.gru(self.embedding(x))


class DecoderRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.gru = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, 12)

    def forward(self, eo, eh, target=None):
        inp = torch.empty(eo.size(0), 1, dtype=torch.long).fill_(SOS)
        h = eh
        outs = []
        for i in range(MAX):
            o, h = self.gru(F.relu(self.embedding(inp)), h)
            o = self.out(o)
            outs.append(o)
            if target is not None:
                inp = target[:, i].unsqueeze(1)
            else:
                inp = o.topk(1)[1].squeeze(-1).detach()
        return F.log_softmax(torch.cat(outs, 1), -1)


def train(loader, encoder, decoder, n_epochs, learning_rate=0.01, ratio=1.1):
    print_loss_total = 0
    plot_losses = []
    eo, do = (
        torch.optim.Adam(encoder.parameters(), lr=learning_rate),
        torch.optim.Adam(decoder.parameters(), lr=learning_rate),
    )
    criterion = nn.NLLLoss()
    run = elastic(
        {"encoder": encoder, "decoder": decoder}, {"encoder": eo, "decoder": do}, loader, epochs=n_epochs
    )
    for epoch in run.epochs():
        total_loss = 0
        for inp, tgt in run.batches():
            eo.zero_grad()
            do.zero_grad()
            enc, hid = encoder(inp)
            out = decoder(enc, hid, tgt if random.random() < ratio else None)
            loss = criterion(out.view(-1, out.size(-1)), tgt.view(-1))
            run.backward(loss)
            run.step(eo)
            run.step(do)
            total_loss += loss.item()
        print_loss_total += total_loss / len(loader)
        if epoch % 2 == 0:
            plot_losses.append(print_loss_total / 2)
            print_loss_total = 0
    return run


encoder, decoder = EncoderRNN(), DecoderRNN()
run = train(DataLoader(TensorDataset(X, Y), batch_size=12, shuffle=True), encoder, decoder, 20)
if run.is_leader:
    torch.save({**encoder.state_dict(prefix="e."), **decoder.state_dict(prefix="d.")}, sys.argv[1])
