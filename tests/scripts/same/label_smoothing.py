"""Label smoothing written by hand, with log_softmax and a mean over samples; a model of MLP-Mixer's kind."""

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class LabelSmoothing(nn.Module):
    def __init__(self, smoothing=0.1):
        super().__init__()
        self.smoothing, self.confidence = smoothing, 1 - smoothing

    def forward(self, x, target):
        logprobs = x.log_softmax(-1)
        nll = -logprobs.gather(-1, target.unsqueeze(1)).squeeze(1)
        return (self.confidence * nll + self.smoothing * -logprobs.mean(-1)).mean()


class MixerBlock(nn.Module):
    def __init__(self, patches, dim):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tokens, self.channels = nn.Linear(patches, patches), nn.Linear(dim, dim)

    def forward(self, x):
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(nn.functional.gelu(self.norm2(x)))


model = nn.Sequential(MixerBlock(4, 6), MixerBlock(4, 6), nn.Flatten(), nn.Linear(24, 5))
optimizer = torch.optim.RAdam(model.parameters(), lr=5e-3)
data = TensorDataset(torch.randn(60, 4, 6), torch.randint(0, 5, (60,)))
criterion = LabelSmoothing()
run = train.elastic(model, optimizer, DataLoader(data, batch_size=12, shuffle=True), epochs=16)
for _ in run.epochs():
    for x, y in run.batches():
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
