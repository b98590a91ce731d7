"""The best weights so far are kept by an accuracy that is a local of the function."""

import copy
import sys
import time

from tests.scripts.common import DataLoader, TensorDataset, elastic, nn, torch

x = torch.randn(96, 6)
y = (x[:, 0] + 0.8 * torch.randn(96) > 0).long()
sets = {"train": TensorDataset(x[:72], y[:72]), "val": TensorDataset(x[72:], y[72:])}
dataloaders = {p: DataLoader(sets[p], batch_size=12, shuffle=True) for p in ["train", "val"]}
dataset_sizes = {p: len(sets[p]) for p in sets}


def train_model(model, criterion, optimizer, scheduler, num_epochs=25):
    since = time.time()
    best_model_wts = copy.deepcopy(model.state_dict())
    best_acc = 0.0
    run = elastic(model, optimizer, dataloaders["train"], epochs=num_epochs, scheduler=scheduler)
    for _epoch in run.epochs():
        for phase in ["train", "val"]:
            if phase == "train":
                model.train()
            else:
                model.eval()
            running_loss = 0.0
            running_corrects = 0
            for inputs, labels in run.batches() if phase == "train" else dataloaders[phase]:
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        run.backward(loss)
                        run.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(preds == labels.data)
            epoch_loss = running_loss / dataset_sizes[phase]
            epoch_acc = running_corrects.double() / dataset_sizes[phase]
            print(f"{phase} Loss: {epoch_loss:.4f} Acc: {epoch_acc:.4f}")
            if phase == "val" and epoch_acc > best_acc:
                best_acc = epoch_acc
                best_model_wts = copy.deepcopy(model.state_dict())
    print(f"Best val Acc: {best_acc:4f} {time.time() - since}")
    model.load_state_dict(best_model_wts)
    return model, run


model_ft = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 2))
opt = torch.optim.SGD(model_ft.parameters(), lr=0.3, momentum=0.9)
sch = torch.optim.lr_scheduler.StepLR(opt, step_size=7 * 6, gamma=0.1)
model_ft, run = train_model(model_ft, nn.CrossEntropyLoss(), opt, sch, 25)
if run.is_leader:
    torch.save(model_ft.state_dict(), sys.argv[1])
