"""Style transfer: a perceptual loss on frozen features, and Gram matrices of one picture."""

import sys
from collections import namedtuple

from tests.scripts.common import DataLoader, TensorDataset, elastic, nn, torch


class Vgg(nn.Module):
    def __init__(self, requires_grad=False):
        super().__init__()
        self.s1 = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())
        self.s2 = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU())
        if not requires_grad:
            for p in self.parameters():
                p.requires_grad = False

    def forward(self, X):
        a = self.s1(X)
        b = self.s2(a)
        return namedtuple("VggOutputs", ["relu1", "relu2"])(a, b)


class TransformerNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.pad = nn.ReflectionPad2d(1)
        self.c1 = nn.Conv2d(3, 6, 3, bias=False)
        self.in1 = nn.InstanceNorm2d(6, affine=True)
        self.c2 = nn.Conv2d(6, 3, 3)

    def forward(self, x):
        return self.c2(self.pad(torch.relu(self.in1(self.c1(self.pad(x))))))


def gram_matrix(y):
    b, ch, h, w = y.size()
    f = y.view(b, ch, w * h)
    return f.bmm(f.transpose(1, 2)) / (ch * h * w)


def normalize_batch(batch):
    mean = batch.new_tensor([0.485, 0.456, 0.406]).view(-1, 1, 1)
    std = batch.new_tensor([0.229, 0.224, 0.225]).view(-1, 1, 1)
    return (batch.div_(1.0) - mean) / std


batch_size = 12
loader = DataLoader(TensorDataset(torch.rand(66, 3, 8, 8), torch.zeros(66)), batch_size=batch_size)
transformer = TransformerNet()
optimizer = torch.optim.Adam(transformer.parameters(), 1e-2)
mse_loss = nn.MSELoss()
vgg = Vgg(requires_grad=False)
style = torch.rand(3, 8, 8).repeat(batch_size, 1, 1, 1)
features_style = vgg(normalize_batch(style))
gram_style = [gram_matrix(y) for y in features_style]
run = elastic(transformer, optimizer, loader, epochs=20)
for _e in run.epochs():
    transformer.train()
    agg_content_loss = 0.0
    agg_style_loss = 0.0
    count = 0
    for batch_id, (x, _) in enumerate(run.batches()):
        n_batch = len(x)
        count += n_batch
        optimizer.zero_grad()
        y = transformer(x)
        y = normalize_batch(y)
        x = normalize_batch(x)
        features_y = vgg(y)
        features_x = vgg(x)
        content_loss = 1.0 * mse_loss(features_y.relu2, features_x.relu2)
        style_loss = 0.0
        for ft_y, gm_s in zip(features_y, gram_style):
            style_loss += mse_loss(gram_matrix(ft_y), gm_s[:n_batch, :, :])
        style_loss *= 1e3
        total_loss = content_loss + style_loss
        run.backward(total_loss)
        run.step()
        agg_content_loss += content_loss.item()
        agg_style_loss += style_loss.item()
        if (batch_id + 1) % 2 == 0:
            print(f"{count}/{len(loader.dataset)} {agg_content_loss / (batch_id + 1)}")
transformer.eval().cpu()
if run.is_leader:
    torch.save(transformer.state_dict(), sys.argv[1])
