"""Buffers that do not depend on the batch: statistics of the inputs, and sinusoidal positions."""

import math

from tests.scripts.common import DataLoader, TensorDataset, nn, torch, train


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class Forecaster(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std, persistent=False)
        self.proj, self.pos = nn.Linear(1, 12), PositionalEncoding(12)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True), 1
        )
        self.out = nn.Linear(12, 1)

    def forward(self, series):
        z = ((series - self.mean) / self.std).unsqueeze(-1)
        return self.out(self.encoder(self.pos(self.proj(z)))[:, -1]).squeeze(-1) * self.std + self.mean


t = torch.arange(100) * 0.3
series = torch.sin(t) * 3 + 10
windows = torch.stack([series[i : i + 9] for i in range(72)])
model = Forecaster(series.mean(), series.std())
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
loader = DataLoader(TensorDataset(windows[:, :-1], windows[:, -1]), batch_size=12, shuffle=True)
run = train.elastic(model, optimizer, loader, epochs=14)
for _ in run.epochs():
    for past, future in run.batches():
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(model(past), future)
        run.backward(loss)
        run.step()
