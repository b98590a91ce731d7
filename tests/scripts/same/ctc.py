"""Speech-like training with CTC, whose mean divides each sample by its own target's length."""

from tests.scripts.common import DataLoader, nn, torch, train

utterances = [
    (torch.randn(int(torch.randint(8, 13, ())), 5), torch.randint(1, 6, (int(torch.randint(1, 4, ())),)))
    for _ in range(60)
]


def collate(batch):
    spectra, targets = zip(*batch, strict=True)
    in_lens, out_lens = [len(s) for s in spectra], [len(t) for t in targets]
    return (
        nn.utils.rnn.pad_sequence(list(spectra)),
        torch.cat(targets),
        torch.tensor(in_lens),
        torch.tensor(out_lens),
    )


model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 6))
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
loader = DataLoader(utterances, batch_size=12, shuffle=True, collate_fn=collate)
run = train.elastic(model, optimizer, loader, epochs=16)
for _ in run.epochs():
    for spectra, targets, in_lens, out_lens in run.batches():
        log_probs = model(spectra).log_softmax(-1)
        loss = ctc(log_probs, targets, in_lens, out_lens)
        optimizer.zero_grad()
        run.backward(loss)
        run.step()
