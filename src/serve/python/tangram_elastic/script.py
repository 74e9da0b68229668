"""Runs an ordinary DistributedDataParallel script as one trainer of an elastic job.

The script sees a fixed world of `logical` ranks. Its loop body runs once for each logical worker of this trainer:
the loader yields that worker's batch, optimizer.step() takes the gradients, and the last of a step makes the real step.
Between two batches the trainer may switch to another group or end, so nothing of the script's own is interrupted.
"""

import ast
import builtins
import functools
import os
import sys
import traceback
import types

import torch
import torch.distributed as dist
import torch.utils.data as data
from torch.optim import lr_scheduler

from . import inspect_script, state
from .errors import Refused, refuse, users_line
from .trainer import Trainer, scramble, seed_everything

_runner = None


def trainer():
    return _runner.trainer if _runner else None


class Rank(int):
    """The rank of this process, which changes as trainers come and go: whatever is asked of it is answered now."""

    def __new__(cls):
        return int.__new__(cls, 0)

    @staticmethod
    def now():
        return _runner.rank()

    # A copy, as in a checkpoint, is a number and no longer follows the rank.
    def __reduce__(self):
        return int, (Rank.now(),)

    def __copy__(self):
        return Rank.now()

    def __deepcopy__(self, memo):
        return Rank.now()


def _live(name):
    method = getattr(int, name)

    @functools.wraps(method)
    def ask(self, *arguments):
        return method(Rank.now(), *[a.now() if isinstance(a, Rank) else a for a in arguments])

    return ask


for _name in (
    "eq ne lt le gt ge bool hash int index float str repr format add radd sub rsub mul rmul mod rmod floordiv "
    "rfloordiv truediv rtruediv and or xor neg pos abs".split()
):
    if hasattr(int, "__%s__" % _name):
        setattr(Rank, "__%s__" % _name, _live("__%s__" % _name))


class RankText(str):
    """The value of RANK in the environment; int() of it is a Rank. A copy is a text."""

    def __reduce__(self):
        return str, (str.__str__(self),)

    def __copy__(self):
        return str.__str__(self)

    def __deepcopy__(self, memo):
        return str.__str__(self)


class _Environment(dict):
    pass


class DistributedDataParallel(torch.nn.Module):
    """Passes through: gradients are reduced where the optimizer steps."""

    def __init__(self, module, *unused, **also_unused):
        super().__init__()
        self.module = module
        _runner.wrap(module)

    def forward(self, *inputs, **named):
        return self.module(*inputs, **named)

    def no_sync(self):
        refuse("cannot be made elastic: gradient accumulation by hand (no_sync)")

    def register_comm_hook(self, *unused):
        refuse("cannot be made elastic: a communication hook")

    def join(self, *unused, **also_unused):
        refuse("cannot be made elastic: uneven inputs (join)")


class _BatchSet(data.Dataset):
    """Makes a whole batch of a task, with random numbers that belong to the logical worker, in whatever process."""

    def __init__(self, dataset, collate):
        self.dataset, self.collate = dataset, collate

    def __getitem__(self, task):
        seed, indices = task[0], task[1]
        seed_everything(seed)
        return task[2], self.collate([self.dataset[i] for i in indices])

    def __len__(self):
        return len(self.dataset)


class DataLoader(data.DataLoader):
    """With a DistributedSampler, and while the model is in training mode: the batches of this trainer. Else as ever."""

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, *more, **named):
        self._elastic = isinstance(sampler, data.DistributedSampler)
        super().__init__(dataset, batch_size, shuffle, sampler, *more, **named)
        self._epochs = 0  # That were begun.

    def __len__(self):
        if not self._elastic:
            return super().__len__()
        if self is not _runner.loader and (not torch.is_grad_enabled() or _runner.evaluates()):
            return -(-len(self.dataset) // self.batch_size)  # As __iter__ yields.
        samples = self.sampler.num_samples
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def _orders(self):
        """The indices of each logical worker in this epoch, as DistributedSampler deals them out."""
        sampler = self.sampler
        kept = sampler.num_replicas, sampler.rank, sampler.num_samples
        sampler.num_replicas, sampler.rank, sampler.num_samples = 1, 0, sampler.total_size
        try:
            order = list(iter(sampler))
        finally:
            sampler.num_replicas, sampler.rank, sampler.num_samples = kept
        return order

    def __iter__(self):
        if not self._elastic or not torch.is_grad_enabled() or not _runner.trains():
            if self._elastic:  # Evaluation: this process sees all samples.
                return iter(data.DataLoader(self.dataset, self.batch_size, collate_fn=self.collate_fn))
            return super().__iter__()
        return _runner.micro_batches(self)


class _Fetcher:
    """The batches of a sequence of tasks, made ahead by helper processes if the loader has them."""

    def __init__(self, loader):
        self._loader = loader
        self._set = _BatchSet(loader.dataset, loader.collate_fn)
        self._iterator = None

    def get(self, task, expected_next):
        if self._loader.num_workers == 0:
            return self._set[task][1]
        while True:
            if self._iterator is None:
                self._iterator = iter(
                    data.DataLoader(
                        self._set,
                        batch_size=None,
                        sampler=expected_next,
                        num_workers=self._loader.num_workers,
                        collate_fn=_same,
                        pin_memory=self._loader.pin_memory,
                        worker_init_fn=self._loader.worker_init_fn,
                        prefetch_factor=self._loader.prefetch_factor or 2,
                    )
                )
            key, batch = next(self._iterator, (None, None))
            if key == task[2]:
                return batch
            self._iterator = None  # The split has changed: what was made ahead is for others.


def _same(batch):
    return batch


class Runner:
    def __init__(self, logical):
        self.trainer = Trainer(logical)
        self.logical = logical
        self.models, self.optimizers, self.schedulers = [], [], []
        self.optimizer = None
        self.micro = None         # (logical worker, whether it is the last of the step) while the loop body runs.
        self.committed = False    # The step of this body was made.
        self.stepped = False      # optimizer.step() was called in this body.
        self.clips = []
        self.loops = {}           # The loops over epochs that run: line -> index.
        self.resume_loops = {}    # Where the state that was received stands.
        self.behind = False       # This script has not come yet to where its state stands.
        self.loader = None
        self.epoch = {"number": 0, "begin": 0}  # Of the training loader.
        self.in_scheduler = False

    def rank(self):
        if not self.trainer.joined:
            return 0 if self.trainer.id == 0 else 1
        return 0 if self.trainer.link is None else self.trainer.rank

    def wrap(self, module):
        if self.models:
            refuse("cannot be made elastic: a second DistributedDataParallel model")
        self.models.append(module)

    def trains(self):
        return bool(self.models) and self.models[0].training and bool(self.optimizers)

    def evaluates(self):
        return bool(self.models) and not self.models[0].training

    # ---- joining and state -------------------------------------------------------------------------------------------
    def ready(self):
        return bool(self.models) and bool(self.optimizers)

    def join(self):
        if self.trainer.joined:
            return
        if not self.models:
            refuse("no model was wrapped in DistributedDataParallel before the training loop")
        parameters = {id(p) for p in self.models[0].parameters()}
        ours = [
            o for o in self.optimizers if any(id(p) in parameters for g in o.param_groups for p in g["params"])
        ]
        if len(ours) != 1:
            refuse("cannot be made elastic: %d optimizers of the model; expected one" % len(ours))
        self.optimizer = ours[0]
        self.trainer.start(self.models[0], self.optimizer, self._extra, self._restore)

    def _extra(self):
        # One that has just got its state, as from a checkpoint, passes on where that stands and not where the script is.
        return {
            "schedulers": [state.without_functions(s.state_dict()) for s in self.schedulers],
            "loops": dict(self.received["loops"] if self.behind else self.loops),
            "epoch": dict(self.received["epoch"] if self.behind else self.epoch),
        }

    def _restore(self, extra):
        if len(self.schedulers) != len(extra["schedulers"]):
            refuse("the state that was received has %d schedulers of learning rates; the script has made %d"
                   % (len(extra["schedulers"]), len(self.schedulers)))  # fmt: skip
        for scheduler, kept in zip(self.schedulers, extra["schedulers"]):
            scheduler.load_state_dict(kept)
        self.received = extra
        self.resume_loops = dict(extra["loops"])
        self.resume_epoch = dict(extra["epoch"])
        self.behind = True

    def epochs(self, iterable, line):
        """A loop over epochs, from the one that the others have reached."""
        if not self.ready() or self.micro is not None:
            yield from iterable
            return
        self.join()
        skip = self.resume_loops.pop(line, 0) if self.behind else 0
        if skip:
            # The loader must not count the epochs that are left out.
            self.epoch = dict(self.resume_epoch, number=self.resume_epoch["number"] - 1, skipped=True)
        try:
            for index, item in enumerate(iterable):
                if index < skip:
                    continue
                self.loops[line] = index
                yield item
        finally:
            self.loops.pop(line, None)

    # ---- the training loader -----------------------------------------------------------------------------------------
    def micro_batches(self, loader):
        self.join()
        job = self.trainer
        if self.loader is not None and self.loader is not loader:
            refuse("cannot be made elastic: a second training DataLoader")
        first = self.loader is None
        self.loader = loader
        steps = len(loader)
        if steps == 0:
            refuse("the DataLoader has no whole batch for each of %d logical workers" % self.logical)
        if first and not self.epoch.get("skipped"):
            self.epoch = {"number": 0, "begin": 0}
        elif self.epoch.pop("skipped", False):
            self.epoch = dict(self.resume_epoch)
        else:
            begin = self.epoch["begin"] + steps if self.behind else job.step
            self.epoch = {"number": self.epoch["number"] + 1, "begin": begin}
        begin = self.epoch["begin"]
        order, fetcher = None, _Fetcher(loader)
        try:
            while True:
                job.boundary()
                k = job.step - begin
                if k >= steps:
                    break
                self.behind = False
                if order is None:
                    order = loader._orders()
                share = job.share()
                job.save_buffers()
                for at, logical in enumerate(share):
                    task = self._task(loader, order, k, logical)
                    ahead = self._ahead(loader, order, k, logical, share, steps) if loader.num_workers else None
                    batch = fetcher.get(task, ahead)
                    if logical != 0:
                        job.reset_buffers()
                    seed_everything(scramble(job.base_seed, job.step, logical, 1))
                    self.micro, self.may_admit = (logical, at == len(share) - 1), k + 1 < steps
                    self.stepped = self.committed = False
                    self.k = k
                    job.micro_loss = 0.0
                    yield batch
                    if not self.stepped:
                        refuse("the loop went on without optimizer.step(): gradients that are accumulated over several "
                               "batches cannot be made elastic; use a larger batch")  # fmt: skip
                    self.micro = None
        except GeneratorExit:
            # What is raised while a generator is closed goes nowhere.
            if self.micro is not None and not self.committed and (self.stepped or at > 0):
                _give_up(job.link, "refused", "%s: cannot be made elastic: the training loop was left in the middle "
                         "of a step; leave it between two epochs" % users_line(), 2)  # fmt: skip
                os._exit(2)
            raise
        finally:
            self.micro = None
        seed_everything(scramble(job.base_seed, job.step, self.logical))

    def _task(self, loader, order, k, logical):
        size = loader.batch_size
        indices = order[logical :: self.logical][k * size : (k + 1) * size] if len(order) < 65536 else [
            order[i] for i in range(logical + k * size * self.logical,
                                    min(len(order), logical + (k + 1) * size * self.logical), self.logical)
        ]  # fmt: skip
        job = self.trainer
        return scramble(job.base_seed, job.step, logical), indices, (k, logical)

    def _ahead(self, loader, order, k, logical, share, steps):
        """The tasks from this one to the end of the epoch, if nobody comes or goes."""
        job, begin = self.trainer, self.epoch["begin"]
        share = list(share)

        class Tasks:
            def __iter__(tasks):
                for step in range(k, steps):
                    for r in share:
                        if step == k and r < logical:
                            continue
                        size = loader.batch_size
                        indices = [
                            order[i]
                            for i in range(r + step * size * self.logical,
                                           min(len(order), r + (step + 1) * size * self.logical), self.logical)
                        ]  # fmt: skip
                        yield scramble(job.base_seed, begin + step, r), indices, (step, r)

            def __len__(tasks):
                return (steps - k) * len(share)

        return Tasks()

    # ---- what the loop body calls ------------------------------------------------------------------------------------
    def optimizer_step(self, optimizer, closure=None):
        real = type(optimizer).step
        if closure is not None:
            refuse("cannot be made elastic: an optimizer step with a closure")
        if self.optimizer is not None and optimizer is not self.optimizer:
            if self.micro is not None:
                refuse("cannot be made elastic: an optimizer of another model, stepped once a micro-batch")
            return real(optimizer)
        if self.micro is None:
            refuse("optimizer.step() outside of a loop over a DataLoader with a DistributedSampler")
        if self.stepped:
            refuse("cannot be made elastic: two optimizer steps on one batch")
        self.stepped = True
        logical, last = self.micro
        self.trainer.collect(logical)
        if not last:
            for parameter in self.trainer.parameters:
                parameter.grad = None
            self.clips = []
            return None

        def apply():
            for clip, parameters, arguments, named in self.clips:
                clip(parameters, *arguments, **named)
            real(optimizer)

        self.committed = self.trainer.finish(apply, self.may_admit)
        self.clips = []
        return None

    def clip(self, real, parameters, *arguments, **named):
        """Clips the mean gradient, later; answers with the norm of this micro-batch."""
        if self.micro is None:
            return real(parameters, *arguments, **named)
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        self.clips.append((real, parameters, arguments, named))
        grads = [p.grad for p in parameters if p.grad is not None]
        kind = named.get("norm_type", arguments[1] if len(arguments) > 1 else 2.0)
        if real.__name__ != "clip_grad_norm_" or not grads:
            return torch.tensor(0.0)
        return torch.norm(torch.stack([torch.norm(g.detach(), kind) for g in grads]), kind)

    def scheduler_step(self, real, scheduler, *arguments, **named):
        if self.in_scheduler:
            return real(scheduler, *arguments, **named)
        if self.trainer.in_batches:
            refuse("a scheduler that is stepped in a loop over batches(); give it to join(scheduler=)")
        if self.micro is not None and not self.stepped:
            refuse("cannot be made elastic: a scheduler that is stepped before the optimizer; step it afterwards")
        if self.behind or (self.micro is not None and not self.committed):
            return None  # The step is not complete, or the state that was received includes it.
        self.in_scheduler = True
        try:
            return real(scheduler, *arguments, **named)
        finally:
            self.in_scheduler = False


def _counted(iterable, start=0):
    """enumerate() whose numbers count steps in loops over the training loader."""
    if _runner.micro is not None:  # Within the loop body.
        yield from builtins.enumerate(iterable, start)
        return
    for number, item in builtins.enumerate(iterable, start):
        yield (number if _runner.micro is None else start + _runner.k), item


def _whole(value):
    return Rank() if isinstance(value, (RankText, Rank)) else builtins.int(value)


def _refuser(name):
    def call(*unused, **also_unused):
        refuse("cannot be made elastic: torch.distributed.%s by hand" % name)

    return call


def _patch(runner):
    logical = runner.logical

    def ignore(*unused, **also_unused):
        return None

    def barrier(*unused, **also_unused):
        if runner.trainer.opening is not None:
            runner.trainer.opening.barrier()

    dist.init_process_group = dist.destroy_process_group = ignore
    dist.barrier = barrier
    dist.is_initialized = lambda: True
    dist.get_world_size = lambda *unused: logical
    dist.get_rank = lambda *unused: Rank()
    dist.get_backend = lambda *unused: "gloo"
    for name in inspect_script._COLLECTIVES:
        if hasattr(dist, name):
            setattr(dist, name, _refuser(name))
    torch.nn.parallel.DistributedDataParallel = DistributedDataParallel
    torch.nn.parallel.distributed.DistributedDataParallel = DistributedDataParallel

    sampler_init = data.DistributedSampler.__init__

    def init_sampler(self, dataset, num_replicas=None, rank=None, *more, **named):
        if num_replicas is not None and num_replicas != logical:
            refuse("a DistributedSampler for %d ranks; the world has %d" % (num_replicas, logical))
        sampler_init(self, dataset, logical, 0, *more, **named)

    data.DistributedSampler.__init__ = init_sampler
    data.DataLoader = DataLoader

    optimizer_init = torch.optim.Optimizer.__init__

    def init_optimizer(self, *arguments, **named):
        optimizer_init(self, *arguments, **named)
        self.step = types.MethodType(lambda self, closure=None: runner.optimizer_step(self, closure), self)
        runner.optimizers.append(self)

    torch.optim.Optimizer.__init__ = init_optimizer

    for name in ("clip_grad_norm_", "clip_grad_value_"):
        real = getattr(torch.nn.utils, name)
        patched = functools.wraps(real)(functools.partial(runner.clip, real))
        setattr(torch.nn.utils, name, patched)
        setattr(torch.nn.utils.clip_grad, name, patched)

    def wrap_scheduler(cls):
        for name in ("__init__", "step"):
            if name not in cls.__dict__:
                continue
            real = cls.__dict__[name]
            if name == "step":
                def step(self, *arguments, _real=real, **named):
                    return runner.scheduler_step(_real, self, *arguments, **named)

                cls.step = functools.wraps(real)(step)
            else:
                def init(self, *arguments, _real=real, **named):
                    if not any(s is self for s in runner.schedulers):
                        runner.schedulers.append(self)
                    _real(self, *arguments, **named)

                cls.__init__ = functools.wraps(real)(init)

    base = getattr(lr_scheduler, "LRScheduler", lr_scheduler._LRScheduler)
    for cls in list(vars(lr_scheduler).values()):
        if isinstance(cls, type) and (issubclass(cls, base) or cls.__name__ == "ReduceLROnPlateau"):
            wrap_scheduler(cls)

    backward = torch.Tensor.backward

    def noted(self, *arguments, **named):
        if runner.micro is not None and self.numel() == 1:
            runner.trainer.micro_loss += float(self.detach())
        return backward(self, *arguments, **named)

    torch.Tensor.backward = noted

    scaler_init = torch.cuda.amp.GradScaler.__init__

    def init_scaler(self, *arguments, **named):
        scaler_init(self, *arguments, **named)
        if self.is_enabled():
            refuse("cannot be made elastic: torch.cuda.amp.GradScaler, whose scale depends on each micro-batch")

    torch.cuda.amp.GradScaler.__init__ = init_scaler


class _ScriptEnvironment(os._Environ):
    """os.environ, in which RANK changes as the rank does."""

    def __getitem__(self, key):
        return RankText(_runner.rank()) if key == "RANK" else super().__getitem__(key)


def _set_environment(logical):
    for name, value in {
        "WORLD_SIZE": logical, "RANK": 0, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": 29500,
    }.items():  # fmt: skip
        os.environ[name] = str(value)
    os.environ.__class__ = _ScriptEnvironment


def run(path, arguments, logical):
    """Runs the script. Does not return if the trainer belongs to a job."""
    global _runner
    _runner = runner = Runner(logical)
    link = runner.trainer.link
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        tree = ast.parse(text, path)
        problems = inspect_script.problems_of(tree, path)
        if problems:
            raise Refused("\n".join(problems))
        _patch(runner)
        _set_environment(logical)
        sys.argv = [path] + list(arguments)
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        module = types.ModuleType("__main__")
        module.__file__ = path
        module.__dict__.update(__tangram_epochs__=runner.epochs, __tangram_enumerate__=_counted, __tangram_int__=_whole)
        sys.modules["__main__"] = module
        code = compile(inspect_script.rewrite(tree), path, "exec")
        try:
            exec(code, module.__dict__)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
        if not runner.trainer.joined:
            raise Refused("%s: no training loop: expected a loop over a DataLoader with a DistributedSampler, and a "
                          "model in DistributedDataParallel" % path)  # fmt: skip
    except Refused as problem:
        return _give_up(link, "refused", str(problem), 2)
    except SyntaxError as problem:
        return _give_up(link, "refused", "%s:%s: %s" % (path, problem.lineno, problem.msg), 2)
    except SystemExit as end:
        return _give_up(link, "crashed", "%s: ended with code %s" % (path, end.code), 1)
    except BaseException as problem:
        traceback.print_exc()
        return _give_up(link, "crashed", "%s: %s: %s" % (path, type(problem).__name__, problem), 1)
    runner.trainer.done()
    return 0


def _give_up(link, kind, text, code):
    sys.stdout.flush()
    if link is None:
        print(text, file=sys.stderr)
        return code
    link.send(**{kind: text})
    sys.stderr.flush()
    os._exit(code)
