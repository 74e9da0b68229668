"""A loop of its own, with the three lines of tangram_elastic."""

import sys

import torch
import torch.nn.functional as F
from torch.utils.data import TensorDataset

import tangram_elastic

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 3)
)
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.5)
x = torch.randn(3200, 16)
dataset = TensorDataset(x, x[:, :3].argmax(1))

job = tangram_elastic.join(model, optimizer, logical_workers=8, scheduler=scheduler)
for inputs, labels in job.batches(dataset, batch_size=8, epochs=4):
    job.step(F.cross_entropy(model(inputs), labels))
if job.leads and len(sys.argv) > 1:
    torch.save({"model": model.state_dict(), "lr": optimizer.param_groups[0]["lr"], "steps": job.steps}, sys.argv[1])
