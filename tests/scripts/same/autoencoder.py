"""An autoencoder with mean squared error, whose epochs end with a short batch."""

from tests.scripts.common import DataLoader, nn, optim, torch

from swell.train import elastic

points = torch.randn(65, 2) @ torch.randn(2, 9)
encoder = nn.Sequential(nn.Linear(9, 6), nn.Tanh(), nn.Linear(6, 2))
decoder = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 9))
ae = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
opt = optim.Adam(list(encoder.parameters()) + list(decoder.parameters()), lr=1e-2, weight_decay=1e-5)
run = elastic(ae, opt, DataLoader(points, batch_size=12, shuffle=True), epochs=14)

for _ in run.epochs():
    for batch in run.batches():
        reconstruction = decoder(encoder(batch))
        loss = ((reconstruction - batch) ** 2).mean()
        opt.zero_grad()
        loss = run.backward(loss)
        run.step()
    print(f"epoch {run.epoch}: {loss:.4f}")
    with torch.no_grad():
        run.report(reconstruction=nn.functional.mse_loss(decoder(encoder(points)), points))
