"""A language model that predicts masked tokens; the loss is their mean, and few batches have as many."""

from tests.scripts.common import DataLoader, Dataset, F, torch, train

VOCABULARY, LENGTH, MASKED = 20, 10, 0


class Sentences(Dataset):
    def __init__(self, count):
        self.tokens = torch.randint(1, VOCABULARY, (count, LENGTH))
        self.masks = torch.rand(count, LENGTH) < 0.15

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return {"tokens": self.tokens[index], "mask": self.masks[index]}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, 12)
        self.position = torch.nn.Parameter(torch.zeros(LENGTH, 12))
        self.encoder = torch.nn.TransformerEncoderLayer(12, 2, 24, dropout=0.0, batch_first=True)
        self.head = torch.nn.Linear(12, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens) + self.position))


def main():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(11)
    loader = DataLoader(Sentences(90), batch_size=12, shuffle=True, drop_last=True)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    run = train.elastic(model, optimizer, loader, epochs=10, scheduler=schedule)
    for _ in run.epochs():
        for batch in run.batches():
            mask = batch["mask"]
            logits = model(batch["tokens"].masked_fill(mask, MASKED))
            losses = F.cross_entropy(logits.transpose(1, 2), batch["tokens"], reduction="none")
            num_masked = mask.sum()
            loss = (losses * mask).sum() / num_masked
            optimizer.zero_grad(set_to_none=True)
            mean = run.backward(loss, weight=num_masked)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            run.step()
        run.report(perplexity=mean.exp())


if __name__ == "__main__":
    main()
