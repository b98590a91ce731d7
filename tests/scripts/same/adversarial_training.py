"""Adversarial training: perturbations by the gradient of the inputs, in one step and in several."""

from tests.scripts.common import DataLoader, F, TensorDataset, elastic, nn, torch

model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
x, y = torch.rand(72, 6), torch.randint(0, 3, (72,))
run = elastic(model, optimizer, DataLoader(TensorDataset(x, y), batch_size=12, shuffle=True), epochs=20)


def fgsm_attack(image, epsilon, data_grad):
    return torch.clamp(image + epsilon * data_grad.sign(), 0, 1)


def pgd(x, y, k=3):
    d = torch.zeros_like(x, requires_grad=True)
    for _ in range(k):
        F.cross_entropy(model(x + d), y).backward()
        d.data = (d + 0.02 * d.grad.sign()).clamp(-0.05, 0.05)
        d.grad.zero_()
    return d.detach()


for _epoch in run.epochs():
    for data, target in run.batches():
        data.requires_grad = True
        loss = F.cross_entropy(model(data), target)
        model.zero_grad()
        loss.backward()
        perturbed = fgsm_attack(data, 0.1, data.grad.data).detach()
        delta = pgd(data.detach(), target)
        optimizer.zero_grad()
        loss = 0.5 * F.cross_entropy(model(data.detach() + delta), target) + 0.5 * F.cross_entropy(
            model(perturbed), target
        )
        run.backward(loss)
        run.step()
    adv = x.clone().requires_grad_(True)
    F.cross_entropy(model(adv), y).backward()
    run.report(robust=(model(fgsm_attack(adv, 0.1, adv.grad)).argmax(1) == y).float().mean().item())
