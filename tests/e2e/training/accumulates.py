import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
dataset = TensorDataset(torch.randn(640, 4))
for i, (x,) in enumerate(DataLoader(dataset, 8, sampler=DistributedSampler(dataset))):
    model(x).mean().backward()
    if i % 2 == 1:
        optimizer.step()
        optimizer.zero_grad()
