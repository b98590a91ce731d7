"""A language model that resumes from a checkpoint file of its own, with get_batch left for the evaluation."""

import math
import os
import sys
import tempfile
import time

from tests.scripts.common import DataLoader, Dataset, F, RandomSampler, nn, np, torch, train

out_dir = os.path.join(os.path.dirname(sys.argv[1]), "out")
eval_interval, eval_iters, log_interval = 10, 3, 1
init_from = "resume" if os.path.exists(os.path.join(out_dir, "ckpt.pt")) else "scratch"
gradient_accumulation_steps, batch_size, block_size = 3, 4, 8
learning_rate, max_iters, warmup_iters, lr_decay_iters, min_lr = 1e-2, 80, 8, 70, 1e-3
config_keys = [
    k for k, v in globals().items() if not k.startswith("_") and isinstance(v, (int, float, bool, str))
]
config = {k: globals()[k] for k in config_keys}
os.makedirs(out_dir, exist_ok=True)
data_dir = tempfile.mkdtemp()
tokens = (np.arange(600) ** 2 % 17).astype(np.uint16)
tokens[:500].tofile(os.path.join(data_dir, "train.bin"))
tokens[500:].tofile(os.path.join(data_dir, "val.bin"))


def get_batch(split):
    data = np.memmap(os.path.join(data_dir, f"{split}.bin"), dtype=np.uint16, mode="r")
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy((data[i : i + block_size]).astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy((data[i + 1 : i + 1 + block_size]).astype(np.int64)) for i in ix])
    return x, y


class Blocks(Dataset):
    def __init__(self, path):
        self.tokens = np.memmap(path, dtype=np.uint16, mode="r")

    def __len__(self):
        return len(self.tokens) - block_size

    def __getitem__(self, start):
        block = torch.from_numpy(self.tokens[start : start + block_size + 1].astype(np.int64))
        return block[:-1], block[1:]


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(17, 16)
        self.wpe = nn.Embedding(block_size, 16)
        self.ln = nn.LayerNorm(16)
        self.attn = nn.MultiheadAttention(16, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.lm_head = nn.Linear(16, 17, bias=False)
        self.wte.weight = self.lm_head.weight
        self.register_buffer(
            "mask", torch.triu(torch.ones(block_size, block_size, dtype=torch.bool), 1), persistent=False
        )

    def forward(self, idx, targets=None):
        h = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        n = self.ln(h)
        h = h + self.attn(n, n, n, attn_mask=self.mask, need_weights=False)[0]
        logits = self.lm_head(h + self.mlp(h))
        return logits, None if targets is None else F.cross_entropy(logits.view(-1, 17), targets.view(-1))

    def configure_optimizers(self, weight_decay, lr):
        params = {n: p for n, p in self.named_parameters() if p.requires_grad}
        return torch.optim.AdamW(
            [
                {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": weight_decay},
                {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
            ],
            lr=lr,
            betas=(0.9, 0.95),
        )


iter_num, best_val_loss = 0, 1e9
model = GPT()
if init_from == "resume":
    checkpoint = torch.load(os.path.join(out_dir, "ckpt.pt"), map_location="cpu")
    model.load_state_dict(checkpoint["model"])
    iter_num = checkpoint["iter_num"]
    best_val_loss = checkpoint["best_val_loss"]
optimizer = model.configure_optimizers(0.1, learning_rate)
if init_from == "resume":
    optimizer.load_state_dict(checkpoint["optimizer"])
checkpoint = None
data = Blocks(os.path.join(data_dir, "train.bin"))
sampler = RandomSampler(data, replacement=True, num_samples=20 * batch_size * gradient_accumulation_steps)
loader = DataLoader(data, batch_size=batch_size * gradient_accumulation_steps, sampler=sampler)
run = train.elastic(model, optimizer, loader, steps=max_iters, max_local_batch=batch_size)


@torch.no_grad()
def estimate_loss():
    out = {}
    model.eval()
    for split in ["train", "val"]:
        losses = torch.zeros(eval_iters)
        for k in range(eval_iters):
            X, Y = get_batch(split)
            logits, loss = model(X, Y)
            losses[k] = loss.item()
        out[split] = losses.mean()
    model.train()
    return out


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * (it + 1) / (warmup_iters + 1)
    if it > lr_decay_iters:
        return min_lr
    ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


t0 = time.time()
local_iter_num = 0
running_mfu = -1.0
for _ in run.epochs():
    for X, Y in run.batches():
        lr = get_lr(iter_num)
        for param_group in optimizer.param_groups:
            param_group["lr"] = lr
        logits, loss = model(X, Y)
        run.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        run.step()
        if not run.has_stepped:
            continue
        optimizer.zero_grad(set_to_none=True)
        iter_num += 1
        t1 = time.time()
        dt = t1 - t0
        t0 = t1
        if local_iter_num >= 5:
            running_mfu = 0.9 * running_mfu + 0.1 / dt
        local_iter_num += 1
        if iter_num % eval_interval == 0:
            losses = estimate_loss()
            run.report(train_loss=losses["train"], val_loss=losses["val"], lr=lr)
            if losses["val"] < best_val_loss:
                best_val_loss = losses["val"]
                if run.is_leader:
                    torch.save(
                        {
                            "model": model.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "iter_num": iter_num,
                            "best_val_loss": best_val_loss,
                            "config": config,
                        },
                        os.path.join(out_dir, "ckpt.pt"),
                    )
run.report(best=best_val_loss)
if run.is_leader:
    torch.save(model.state_dict(), sys.argv[1])
