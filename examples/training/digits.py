"""An ordinary DistributedDataParallel script: nothing of Tangram is in it. It learns to name the digit that a picture
of 16 x 16 dots shows, drawn by the script itself, so that nothing has to be downloaded."""

import argparse

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

SEGMENTS = ["abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg"]
PLACES = {"a": (1, 4, 3, 12), "b": (3, 11, 8, 13), "c": (8, 11, 13, 13), "d": (13, 4, 15, 12), "e": (8, 3, 13, 5),
          "f": (3, 3, 8, 5), "g": (7, 4, 9, 12)}


class Digits(Dataset):
    """Seven-segment digits with noise. A sample is the same whenever it is asked for, but for its random shift."""

    def __init__(self, count):
        self.count = count
        self.shapes = torch.zeros(10, 16, 16)
        for digit, segments in enumerate(SEGMENTS):
            for segment in segments:
                top, left, bottom, right = PLACES[segment]
                self.shapes[digit, top:bottom, left:right] = 1

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        noise = torch.rand(16, 16, generator=torch.Generator().manual_seed(index))
        shift = int(torch.randint(-1, 2, ()))
        return (self.shapes[index % 10].roll(shift, 1) * 0.6 + noise * 0.8).unsqueeze(0), index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--samples", type=int, default=12800)
    parser.add_argument("--helpers", type=int, default=0)
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
                        nn.Linear(8 * 49, 10))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.epochs)
    dataset = Digits(arguments.samples)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=16, sampler=sampler, num_workers=arguments.helpers, drop_last=True)
    tests = DataLoader(Digits(500), batch_size=100)

    for epoch in range(arguments.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for pictures, digits in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(pictures), digits)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        scheduler.step()
        if rank == 0:
            model.eval()
            with torch.no_grad():
                right = sum(int((model(pictures).argmax(1) == digits).sum()) for pictures, digits in tests)
            print(f"epoch {epoch}: {right / 5:.1f} % of the digits are read right", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
