"""A loop of its own, with the three lines of tangram_elastic."""

import torch
import torch.nn.functional as F
from torch.utils.data import TensorDataset

import tangram_elastic

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 3))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
x = torch.randn(3200, 16)
dataset = TensorDataset(x, x[:, :3].argmax(1))

job = tangram_elastic.join(model, optimizer, logical_workers=8)
for inputs, labels in job.batches(dataset, batch_size=8, epochs=3):
    job.step(F.cross_entropy(model(inputs), labels))
