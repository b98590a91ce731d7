"""A decoder whose teacher forcing is a coin for each token, with a chance that decays by steps."""

import random
import sys

from tests.scripts.common import DataLoader, F, TensorDataset, nn, torch, train

source = torch.randint(1, 9, (60, 5))
loader = DataLoader(TensorDataset(source, source.flip(1)), batch_size=12, shuffle=True)


class Seq2Seq(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 12)
        self.encoder, self.decoder = nn.GRU(12, 16, batch_first=True), nn.GRUCell(12, 16)
        self.out = nn.Linear(16, 10)

    def forward(self, source, target, ratio):
        _, hidden = self.encoder(self.embed(source))
        hidden, token, outputs = hidden[0], torch.zeros_like(source[:, 0]), []
        for place in range(target.shape[1]):
            hidden = self.decoder(self.embed(token), hidden)
            outputs.append(self.out(hidden))
            token = target[:, place] if random.random() < ratio else outputs[-1].argmax(1)
        return torch.stack(outputs, 1)


class Trainer:
    def __init__(self, model, ratio=1.0, decay=0.98):
        self.model, self.ratio, self.decay = model, ratio, decay
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def train(self):
        run = train.elastic(self.model, self.optimizer, loader, epochs=16, deterministic=True, shards=4)
        for _ in run.epochs():
            for source, target in run.batches():
                self.optimizer.zero_grad()
                out = self.model(source, target, self.ratio)
                loss = F.cross_entropy(out.flatten(0, 1), target.flatten())
                run.backward(loss)
                run.step()
                if run.has_stepped:
                    self.ratio *= self.decay
            run.report(ratio=self.ratio)
        return run


trainer = Trainer(Seq2Seq())
run = trainer.train()
if run.is_leader:
    torch.save(trainer.model.state_dict(), sys.argv[1])
