"""A classifier of names: the losses of single words are added up, and the sum is declared."""

import random
import sys

from tests.scripts.common import DataLoader, Dataset, elastic, nn, torch

random.seed(1)


class NamesDataset(Dataset):
    def __init__(self):
        self.labels = [i % 3 for i in range(66)]
        self.data = [
            "".join(random.choice("abcde") for _ in range(random.randint(2, 5))) for _ in self.labels
        ]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        t = torch.zeros(len(self.data[i]), 1, 5)
        for k, c in enumerate(self.data[i]):
            t[k][0]["abcde".index(c)] = 1
        return torch.tensor([self.labels[i]]), t, self.labels[i], self.data[i]


class CharRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(5, 8)
        self.h2o = nn.Linear(8, 3)
        self.softmax = nn.LogSoftmax(dim=1)

    def forward(self, line):
        _, h = self.rnn(line)
        return self.softmax(self.h2o(h[0]))


def train(rnn, training_data, n_epoch=10, report_every=2, learning_rate=0.05):
    criterion, current_loss = nn.NLLLoss(), 0
    all_losses = []
    rnn.train()
    optimizer = torch.optim.SGD(rnn.parameters(), lr=learning_rate)
    loader = DataLoader(training_data, batch_size=12, shuffle=True, collate_fn=list)
    run = elastic(rnn, optimizer, loader, epochs=n_epoch, loss_reduction="sum")
    for iter in run.epochs():
        for batch in run.batches():
            rnn.zero_grad()
            batch_loss = 0
            for label_tensor, text_tensor, _label, _text in batch:
                output = rnn.forward(text_tensor)
                loss = criterion(output, label_tensor)
                batch_loss += loss
            run.backward(batch_loss)
            nn.utils.clip_grad_norm_(rnn.parameters(), 3)
            run.step()
            current_loss += batch_loss.item() / len(batch)
        all_losses.append(current_loss / len(loader))
        if iter % report_every == 0:
            print(f"{iter}: \t average batch loss = {all_losses[-1]}")
        current_loss = 0
    return run


rnn = CharRNN()
run = train(rnn, NamesDataset(), 20)
if run.is_leader:
    torch.save(rnn.state_dict(), sys.argv[1])
