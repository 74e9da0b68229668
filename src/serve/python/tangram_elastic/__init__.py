"""Data-parallel training whose trainers come and go between two steps.

Ordinary DistributedDataParallel scripts need nothing of this: `tangram train run script.py` runs them as they are. Other
loops take three lines:

    job = tangram_elastic.join(model, optimizer, logical_workers=8)
    for x, y in job.batches(dataset, batch_size=32, epochs=3):
        job.step(F.cross_entropy(model(x), y))

The global batch is `logical_workers` batches of `batch_size`, whoever is there to compute them, and the result has the
same bits for any number of trainers. Started without Tangram, the same lines train alone.
"""

from .errors import Refused
from .trainer import Trainer, join

__all__ = ["Refused", "Trainer", "join"]
