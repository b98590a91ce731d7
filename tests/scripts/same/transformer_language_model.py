"""A small GPT on characters: fixed blocks, AdamW, a cosine with warm-up, clipped gradients."""

import math
from dataclasses import dataclass

from tests.scripts.common import F, nn, torch, train


@dataclass
class Config:
    block_size: int = 10
    n_embd: int = 16
    n_head: int = 2
    n_layer: int = 2
    learning_rate: float = 3e-3
    warmup_iters: int = 10
    max_iters: int = 80


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n_head = c.n_head
        self.ln_1, self.ln_2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.c_attn, self.c_proj = nn.Linear(c.n_embd, 3 * c.n_embd), nn.Linear(c.n_embd, c.n_embd)
        self.mlp = nn.Sequential(
            nn.Linear(c.n_embd, 4 * c.n_embd), nn.GELU(), nn.Linear(4 * c.n_embd, c.n_embd)
        )

    def forward(self, x):
        B, T, C = x.shape
        heads = self.c_attn(self.ln_1(x)).view(B, T, 3, self.n_head, C // self.n_head)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(B, T, C))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self, c, vocab_size):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, c.n_embd), nn.Embedding(c.block_size, c.n_embd)
        self.h = nn.Sequential(*[Block(c) for _ in range(c.n_layer)])
        self.lm_head = nn.Linear(c.n_embd, vocab_size, bias=False)

    def forward(self, idx, targets):
        logits = self.lm_head(self.h(self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))


text = "the quick brown fox jumps over the lazy dog and runs away from it " * 6
stoi = {ch: i for i, ch in enumerate(sorted(set(text)))}
data = torch.tensor([stoi[ch] for ch in text])
c = Config()
samples = [
    (data[i : i + c.block_size], data[i + 1 : i + 1 + c.block_size]) for i in range(0, len(data) - 11, 4)
]
loader = torch.utils.data.DataLoader(samples, batch_size=12, shuffle=True, drop_last=True)
model = GPT(c, len(stoi))
optimizer = torch.optim.AdamW(model.parameters(), lr=c.learning_rate, betas=(0.9, 0.95), weight_decay=0.1)


def lr_at(it):
    if it < c.warmup_iters:
        return (it + 1) / c.warmup_iters
    ratio = (it - c.warmup_iters) / (c.max_iters - c.warmup_iters)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * ratio))


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_at)
run = train.elastic(model, optimizer, loader, steps=c.max_iters, scheduler=scheduler, seed=1337)
for _ in run.epochs():
    for x, y in run.batches():
        optimizer.zero_grad(set_to_none=True)
        loss = model(x, y)
        run.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        run.step()
    if run.is_leader:
        print(f"step {run.steps}: lr {scheduler.get_last_lr()[0]:.2e}")
    run.report(lr=scheduler.get_last_lr()[0])
