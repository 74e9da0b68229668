"""One process of an elastic job: its groups, its share of each step, and the state that it gives or receives.

A step: each trainer computes the gradients of its logical workers, which are added up in a tree of fixed shape
(tree.py). The trainers exchange chunks, finish the tree for their chunk, and gather the chunks. With its chunk each one
says which next group it has built; when all say the same, all switch at the end of the step. The coordinator is not
asked.

What fails, fails in a collective: the trainer then drops its groups, so that those that wait for it fail, too, says
which step it has, and waits for a group of the survivors. Nothing was applied, so the step is made again.
"""

import os
import queue
import random
import sys
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from . import state
from .errors import refuse
from .link import Link
from .opening import Opening
from .tree import SumTree, shares

# For the longest thing that rank 0 may do between two steps while the others wait. Dead processes are noticed at once,
# because their connections close, and processes that hang are killed by the coordinator.
_COLLECTIVE_LIMIT = timedelta(hours=2)
_LENGTH_TAG, _STATE_TAG = 7, 8
# How long a trainer whose coordinator has died may take to end its step and save the state.
_ORPHAN_LIMIT_S = 5.0


def scramble(*numbers):
    """A 63-bit seed from whole numbers."""
    x = 0x9E3779B97F4A7C15
    for number in numbers:
        x = (x ^ (number & 0xFFFFFFFFFFFFFFFF)) * 0xBF58476D1CE4E5B9 & 0xFFFFFFFFFFFFFFFF
        x ^= x >> 31
    return x >> 1


def seed_everything(seed):
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed & 0xFFFFFFFF)


class _Keys(dist.Store):
    """Rendezvous through the coordinator: no server of keys that dies with rank 0."""

    def __init__(self, trainer, generation):
        super().__init__()
        self._trainer, self._generation = trainer, generation

    def set(self, key, value):
        data = value if isinstance(value, bytes) else value.encode("latin1")
        self._trainer.link.send(set=key, generation=self._generation, value=data.hex())

    def get(self, key):
        return self._trainer._value_of(self._generation, key)

    def wait(self, keys, *timeout):
        for key in keys:
            self.get(key)

    def set_timeout(self, timeout):
        pass


class _Group:
    """A generation that was prepared: its members, and the connections among them once they are built."""

    def __init__(self, message):
        self.generation = message["generation"]
        self.members = message["members"]
        self.fresh = message["fresh"]
        self.source = message["source"]
        self.recovers = message["recovers"]
        self.restarts = message["restarts"]
        self.step = message["step"]
        self.built = False
        self.connections = None
        self.keys = None  # Kept: the C++ half of a store does not keep the Python half alive.

    def discard(self):
        """Closes the connections, on a thread of its own: Gloo takes 20 to 30 ms for that, in which it waits for its event
        loop, and a step may be shorter. The destructor does not hold the interpreter's lock."""
        connections, keys = [self.connections], [self.keys]
        self.connections = self.keys = None

        def close():
            connections.clear()
            keys.clear()

        if connections[0] is not None:
            threading.Thread(target=close, daemon=True).start()


class Trainer:
    """See join(). `state_of` and `restore` give and take everything but parameters and optimizer that a step depends on."""

    def __init__(self, logical_workers):
        self.logical = logical_workers
        self.tree = SumTree(logical_workers)
        self.step = 0  # Steps made.
        self.loss = None
        self.rank = 0
        self.joined = False
        self.model = self.optimizer = None
        self.in_batches = False  # The body of a loop over batches() runs.
        self.scheduler = None    # Of a loop over batches(): stepped once a step.
        self.extra_state = dict  # () -> dict, of the loop: epochs and schedulers.
        self.restore_extra = lambda extra: None
        self.clips = []
        self.base_seed = 0
        self.link = None
        self.id = int(os.environ.get("TANGRAM_TRAINER", 0))
        self.checkpoint = os.environ.get("TANGRAM_CHECKPOINT", "")
        self._checkpoint_every = float(os.environ.get("TANGRAM_CHECKPOINT_EVERY_S", 0))
        self._checkpoint_at = time.monotonic()
        self._writing = None
        self._within_epoch = False  # The step that was made last is not the last of its epoch.
        self._check = os.environ.get("TANGRAM_CHECK_STATE") == "1"
        self._has_state = False  # Of the job, and not only its own beginning.
        self._groups = {}        # By generation: those that were prepared and are newer than the current one.
        self._latest = 0
        self._told_to_enter = 0
        self._stopped = False
        self._failed = 0
        self._orphaned = False  # The coordinator is gone.
        self._changed = threading.Condition()
        self._values = {}
        self._group = None
        self._fresh = False   # In the first step of the group, to which it adds nothing.
        self._agreed = None   # The generation that follows after this step.
        self._broken = False
        self._sending = []
        self._sums = []
        self.micro_loss = 0.0
        path = os.environ.get("TANGRAM_ELASTIC_SOCKET")
        self.opening = None  # Until it joins.
        if path:
            self.opening = Opening(os.path.dirname(path), self.id == 0)
            os.environ["GLOO_SOCKET_IFNAME"] = "lo"
            self.link = Link(path, self.id, self._on_message, self._on_lost)
            self.link.start()

    # ---- what the coordinator says, on the thread of the link --------------------------------------------------------
    def _on_message(self, message):
        with self._changed:
            if "prepare" in message:
                self._prepare(_Group(message["prepare"]))
            elif "enter" in message:
                self._told_to_enter = max(self._told_to_enter, message["enter"])
            elif "value" in message:
                self._values[(message["generation"], message["key"])] = bytes.fromhex(message["value"])
            elif "stop" in message:
                self._stopped = True
                if not self.joined:
                    self._end()
            self._changed.notify_all()

    def _on_lost(self):
        """On the thread of the link, which ends the process afterwards."""
        with self._changed:
            self._orphaned = True
            self._changed.notify_all()
            if not self.joined:
                return
        time.sleep(_ORPHAN_LIMIT_S)

    def _end_orphaned(self):
        """Between two steps: the trainer of rank 0 saves the state for whoever continues the job."""
        if self.checkpoint and self._has_state and self.rank == 0 and self._within_epoch:
            if self._writing:
                self._writing.join()
            state.save(self._packed(), self.checkpoint)
        self._end(3)

    def _prepare(self, group):
        if group.generation <= self._latest:
            return
        self._latest = group.generation
        self._groups[group.generation] = group
        if self.id not in group.members:
            group.built = True
            return
        threading.Thread(target=self._build, args=(group,), daemon=True).start()

    def _build(self, group):
        """Connects the members while training goes on."""
        try:
            keys = _Keys(self, group.generation)
            connections = None
            if len(group.members) > 1:
                connections = dist.ProcessGroupGloo(
                    keys, group.members.index(self.id), len(group.members), _COLLECTIVE_LIMIT
                )
        except Exception as error:  # Also if a later group made this one obsolete.
            self.link.send(build_failed=group.generation, why=str(error)[-200:])
            return
        with self._changed:
            if self._failed >= group.generation:
                return
            group.keys, group.connections, group.built = keys, connections, True
            self._changed.notify_all()
        self.link.send(built=group.generation)

    def _value_of(self, generation, key):
        with self._changed:
            if (generation, key) in self._values:
                return self._values[(generation, key)]
        self.link.send(get=key, generation=generation)
        with self._changed:
            while (generation, key) not in self._values:
                if self._failed >= generation or (self._group and self._group.generation > generation):
                    raise RuntimeError("the group is not wanted any more")
                self._changed.wait(0.5)
            return self._values[(generation, key)]

    def _end(self, code=0):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    # ---- membership --------------------------------------------------------------------------------------------------
    def start(self, model, optimizer, extra_state=None, restore_extra=None):
        """Joins the job: returns when this process has the job's state and a share of the next step."""
        self.model, self.optimizer = model, optimizer
        if extra_state:
            self.extra_state, self.restore_extra = extra_state, restore_extra
        self.parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        for parameter in self.parameters:
            if not parameter.dtype.is_floating_point or parameter.is_sparse:
                refuse("only dense floating-point parameters can be trained elastically")
        of_model = {id(p) for p in model.parameters()}
        if any(id(p) not in of_model for group in optimizer.param_groups for p in group["params"]):
            refuse("cannot be made elastic: an optimizer that holds parameters outside of the model")
        double = any(p.dtype == torch.float64 for p in self.parameters)
        self._dtype = torch.float64 if double else torch.float32
        self._buffers = [b for b in model.buffers()]
        self.base_seed = torch.initial_seed()
        self.joined = True
        if self.link is None:
            return
        self.opening.end()
        self.opening = None
        self.link.send(hello=0)
        self._enter_next()

    def boundary(self):
        """Between two steps: switches to the group on which all agreed, or to one of the survivors of a failure."""
        if self.link is None:
            return
        self._sending = [item for item in self._sending if not item[0].is_completed()]
        if self._orphaned and (self._within_epoch or self._broken):
            self._end_orphaned()
        if self._broken:
            self._enter_next()
        elif self._agreed is not None:
            agreed, self._agreed = self._agreed, None
            self._enter(self._groups[agreed])
        # Not at the end of an epoch: what the script does there would be left out by those who begin with the copy.
        if self.checkpoint and self._checkpoint_every > 0 and self.rank == 0 and self._within_epoch:
            self._write_checkpoint()

    def _write_checkpoint(self):
        """Copies the state now and then, and writes the copy while training goes on."""
        now = time.monotonic()
        if now - self._checkpoint_at < self._checkpoint_every or (self._writing and self._writing.is_alive()):
            return
        self._checkpoint_at = now
        block = self._packed()
        self._writing = threading.Thread(target=state.save, args=(block, self.checkpoint), daemon=True)
        self._writing.start()

    def _enter_next(self):
        """Outside of any group: waits for the next that this trainer may enter, until it has entered one whole."""
        while True:
            self.link.waits = True
            with self._changed:
                while not (group := self._enterable()):
                    if self._stopped:
                        self._end()
                    if self._orphaned:
                        self._end_orphaned()
                    self._changed.wait()
            self._broken = False
            self._enter(group)
            if not self._broken:
                return

    def _enterable(self):
        for generation in sorted(self._groups, reverse=True):
            group = self._groups[generation]
            if generation <= self._failed or not group.built:
                continue
            if not group.recovers:
                if self.id in group.members and self._told_to_enter >= generation:
                    return group
                continue
            if self.id not in group.members:
                if not group.members and group.source == self.id:
                    return group
                continue
            # It was named before our last message arrived, and is wrong about what we have: another will follow.
            if group.restarts and self._has_state:
                continue
            if not group.restarts and self.id not in group.fresh and not (self._has_state and self.step == group.step):
                continue
            return group
        return None

    def _enter(self, group):
        if self.id not in group.members:
            self._leave(group)
        with self._changed:
            before, self._group = self._group, group
            passed = [self._groups.pop(g) for g in list(self._groups) if g <= group.generation]
            self._values = {k: v for k, v in self._values.items() if k[0] > group.generation}
        for old in [before, *passed]:
            if old not in (None, group):
                old.discard()
        before = passed = old = None
        self.members, self.rank = group.members, group.members.index(self.id)
        self._fresh = self.id in group.fresh
        self._joiners = [i for i in group.members if i in group.fresh]
        self._agreed = None
        if group.restarts and group.source == self.id:
            if self.checkpoint and os.path.exists(self.checkpoint):
                self._restore(state.load(self.checkpoint))
            self._has_state = True
        self.link.send(entered=group.generation, step=-1 if self._fresh else self.step)
        if group.source == self.id and self._joiners:
            self._send_state(group)
        if self._fresh and not self._receive_state(group):
            return
        if self._check:
            self.link.send(state=self.checksum(), generation=group.generation, step=self.step)

    def _leave(self, group):
        if self._writing:
            self._writing.join()
        if not group.members and group.source == self.id and self.checkpoint:
            state.save(self._packed(), os.environ.get("TANGRAM_PARK") or self.checkpoint)
            self.link.send(saved=self.step)
        self.link.send(left=group.generation, step=self.step)
        self._end()

    def _fail(self, why):
        """Requires that no exception and no work object refers to the group any more."""
        generation = self._group.generation
        self._sending = []
        self._broken, self._agreed = True, None
        with self._changed:
            self._failed = generation
            self._group.discard()
            for number in [g for g, group in self._groups.items() if not group.recovers]:
                self._groups.pop(number).discard()
        self.link.send(failed=generation, step=self.step if self._has_state else None, why=why[-200:])

    # ---- state -------------------------------------------------------------------------------------------------------
    def _state(self):
        return {
            "step": self.step,
            "logical_workers": self.logical,
            "seed": self.base_seed,
            "extra": self.extra_state(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
        }

    def _packed(self):
        return state.pack(self._state())

    def _restore(self, block):
        received = state.unpack(block)
        logical = received.get("logical_workers", self.logical)  # Missing in states of the first version.
        if logical != self.logical:
            refuse("the state that was received is of %d logical workers; this job has %d" % (logical, self.logical))
        ours, theirs = ([len(g["params"]) for g in o["param_groups"]]
                        for o in (self.optimizer.state_dict(), received["optimizer"]))  # fmt: skip
        if ours != theirs:
            refuse("the optimizer in the state that was received has groups of %s parameters; the script's has %s"
                   % (theirs, ours))  # fmt: skip
        self.step, self.base_seed = received["step"], received["seed"]
        self.model.load_state_dict(received["model"])
        self.optimizer.load_state_dict(received["optimizer"])
        self.restore_extra(received["extra"])

    def checksum(self):
        """Of the parameters, the buffers and the state of the optimizer."""
        return "%08x" % state.checksum([self.model.state_dict(), self.optimizer.state_dict()["state"]])

    def save(self, path):
        state.save(self._packed(), path)

    def _send_state(self, group):
        block = self._packed()
        length = torch.tensor([block.numel()], dtype=torch.int64)
        try:
            for joiner in self._joiners:
                to = group.members.index(joiner)
                self._sending.append((group.connections.send([length], to, _LENGTH_TAG), length))
                self._sending.append((group.connections.send([block], to, _STATE_TAG), block))
        except RuntimeError:
            pass  # Somebody died: the first collective says so.

    def _receive_state(self, group):
        why = None
        try:
            source = group.members.index(group.source)
            length = torch.zeros(1, dtype=torch.int64)
            work = group.connections.recv([length], source, _LENGTH_TAG)
            work.wait()
            block = torch.empty(int(length[0]), dtype=torch.uint8)
            work = group.connections.recv([block], source, _STATE_TAG)
            work.wait()
        except RuntimeError as error:
            why = str(error)
        work = None
        if why is not None:
            self._fail(why)
            return False
        self._restore(block)
        self._has_state = True
        return True

    # ---- a step ------------------------------------------------------------------------------------------------------
    def share(self):
        """The logical workers that this trainer computes in the next step. A fresh one computes a share of nobody, so
        that its loop makes the step like all others; the sum leaves it out."""
        self._sums = []
        if self.link is None:
            return range(0, self.logical)
        active = [i for i in self.members if i not in self._joiners]
        if self._fresh:
            return range(self.logical - 1, self.logical)
        self.link.waits = False
        begin, end = shares(self.logical, len(active))[active.index(self.id)]
        return range(begin, end)

    def collect(self, logical):
        """Takes the gradients of the logical worker that has just run, and its loss."""
        parts, used = [], []
        for parameter in self.parameters:
            grad = parameter.grad
            used.append(0.0 if grad is None else 1.0)
            if grad is not None and grad.is_sparse:
                refuse("sparse gradients cannot be summed in a fixed order")
            parts.append(
                torch.zeros(parameter.numel(), dtype=self._dtype)
                if grad is None
                else grad.detach().reshape(-1).to(device="cpu", dtype=self._dtype)
            )
        parts.append(torch.tensor(used + [self.micro_loss], dtype=self._dtype))
        if self._buffers:
            parts.append(self._buffers_of(logical))
        self.micro_loss = 0.0
        if not self._fresh:
            self.tree.push(self._sums, (logical, logical + 1), torch.cat(parts))

    # As DistributedDataParallel does, the buffers (running statistics of BatchNorm) are those of rank 0, here logical
    # worker 0: it adds its values and all others add zero. Whole numbers travel in pieces of 16 bits.
    def save_buffers(self):
        self._buffers_before = [b.detach().clone() for b in self._buffers]

    def reset_buffers(self):
        for buffer, before in zip(self._buffers, self._buffers_before):
            buffer.detach().copy_(before)

    def _buffers_of(self, logical):
        parts = []
        for buffer in self._buffers:
            flat = buffer.detach().reshape(-1).cpu()
            if flat.dtype.is_floating_point:
                parts.append(flat.to(self._dtype))
            else:
                pieces = flat.to(torch.int64).view(torch.int16)
                parts.append(pieces.to(self._dtype))
        values = torch.cat(parts)
        return values if logical == 0 else torch.zeros_like(values)

    def _apply_buffers(self, values):
        at = 0
        for buffer in self._buffers:
            if buffer.dtype.is_floating_point:
                part = values[at : at + buffer.numel()]
                at += buffer.numel()
            else:
                count = buffer.numel() * 4
                part = values[at : at + count].to(torch.int16).view(torch.int64).to(buffer.dtype)
                at += count
            buffer.detach().copy_(part.reshape(buffer.shape))

    def finish(self, apply, may_admit=True):
        """Ends the step: sums the gradients of all, and calls `apply`, which steps the optimizer. False if it must be
        made again. `may_admit`: the next step is one of the same epoch, so trainers may join between the two."""
        generation = 0
        if self.link is not None:
            generation = self._ready_generation(may_admit)
        if self.link is None or len(self.members) == 1:
            total = self._sums[0][1]
            votes = [generation]
        else:
            self.link.waits = True
            outcome = self._exchange(generation)
            self.link.waits = False
            if outcome is None:
                self.reset_buffers()
                return False
            total, votes = outcome
        self._put(total)
        apply()
        self.step += 1
        self._within_epoch = may_admit
        self._fresh, self._joiners = False, []
        if self.link is not None:
            if generation > 0 and all(vote == generation for vote in votes):
                self._agreed = generation
            self.link.send(step=self.step, generation=self._group.generation, loss=self.loss)
        return True

    def _ready_generation(self, may_admit):
        with self._changed:
            group = self._groups.get(self._latest)
            if group is None or not group.built or group.recovers:
                return 0
            moves_state = group.fresh or not group.members
            return group.generation if may_admit or not moves_state else 0

    def _exchange(self, vote):
        """The sum of all and the votes of all; nothing if a member has died."""
        why = None
        try:
            return self._reduce(self._group.connections, vote)
        except RuntimeError as error:
            why = str(error)
        self._fail(why)
        return None

    def _reduce(self, connections, vote):
        active = [i for i in self.members if i not in self._joiners]
        ranges = dict(zip(active, shares(self.logical, len(active))))
        nodes = [self.tree.cover(*ranges[i]) if i in ranges else [] for i in self.members]
        size = len(self.members)
        width = self._width()
        chunk = -(-width // size)
        mine = len(nodes[self.rank])
        padded = torch.zeros(mine, size * chunk, dtype=self._dtype)
        for row, (_, value) in zip(padded, self._sums):
            row[:width] = value
        outgoing = padded.view(mine, size, chunk).permute(1, 0, 2).reshape(-1).contiguous()
        incoming = torch.empty(chunk * sum(len(n) for n in nodes), dtype=self._dtype)
        connections.alltoall_base(
            incoming, outgoing, [len(n) * chunk for n in nodes], [mine * chunk] * size
        ).wait()
        pieces, at = [], 0
        for member, own in enumerate(nodes):
            for node in own:
                pieces.append((node, incoming[at : at + chunk]))
                at += chunk
        stack = []
        for node, value in sorted(pieces, key=lambda piece: piece[0]):
            self.tree.push(stack, node, value)
        result = torch.empty(chunk + 1, dtype=self._dtype)
        result[:chunk] = stack[0][1]
        result[chunk] = vote
        gathered = [torch.empty(chunk + 1, dtype=self._dtype) for _ in range(size)]
        connections.allgather([gathered], [result]).wait()
        total = torch.cat([piece[:chunk] for piece in gathered])[:width]
        return total, [int(piece[chunk]) for piece in gathered]

    def _width(self):
        width = sum(p.numel() for p in self.parameters) + len(self.parameters) + 1
        for buffer in self._buffers:
            width += buffer.numel() * (1 if buffer.dtype.is_floating_point else 4)
        return width

    def _put(self, total):
        """Gives each parameter the mean of its gradients."""
        count = sum(p.numel() for p in self.parameters)
        grads = total[:count].mul_(1.0 / self.logical)
        used = total[count : count + len(self.parameters)].tolist()
        self.loss = total[count + len(self.parameters)].item() / self.logical
        at = 0
        for parameter, uses in zip(self.parameters, used):
            part = grads[at : at + parameter.numel()].view(parameter.shape)
            at += parameter.numel()
            parameter.grad = part.to(device=parameter.device, dtype=parameter.dtype) if uses else None
        if self._buffers:
            self._apply_buffers(total[count + len(self.parameters) + 1 :])

    def done(self):
        """The script has ended. Waits until the job has."""
        if self.link is None:
            return
        if self._writing:
            self._writing.join()  # The process ends, and with it the copy that is half written.
        self.link.send(done=self.step, state=self.checksum())
        self.link.waits = True
        with self._changed:
            while not self._stopped and not self._orphaned:
                self._changed.wait()
        self._end()

    # ---- loops of their own -------------------------------------------------------------------------------------------
    def batches(self, dataset, batch_size, epochs=1, collate=None):
        """Batches of this trainer's logical workers, in an order that is shuffled anew for each epoch."""
        from torch.utils.data import default_collate

        collate = collate or default_collate
        per_step = batch_size * self.logical
        steps = len(dataset) // per_step
        if steps == 0:
            refuse("a step takes %d samples and the dataset has %d" % (per_step, len(dataset)))
        order, of_epoch = None, None
        while True:
            self.boundary()
            epoch, k = divmod(self.step, steps)
            if epoch >= epochs:
                break
            if of_epoch != epoch:
                generator = torch.Generator().manual_seed(scramble(self.base_seed, epoch))
                order, of_epoch = torch.randperm(len(dataset), generator=generator).tolist(), epoch
            share = self.share()
            self.save_buffers()
            for logical in share:
                self._now = (logical, logical == share[-1])
                seed_everything(scramble(self.base_seed, self.step, logical))
                at = k * per_step + logical * batch_size
                if logical != 0:
                    self.reset_buffers()
                self.in_batches = True
                try:
                    yield collate([dataset[i] for i in order[at : at + batch_size]])
                finally:
                    self.in_batches = False
                if self._now is not None:
                    refuse("a batch was not given to job.step(loss)")

    def backward(self, loss):
        """One step of a loop over batches()."""
        (logical, last), self._now = self._now, None
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.micro_loss = float(loss.detach())
        self.collect(logical)
        if last and self.finish(self._step_optimizer) and self.scheduler is not None:
            self.in_batches = False
            self.scheduler.step()
            self.in_batches = True

    def _step_optimizer(self):
        type(self.optimizer).step(self.optimizer)
        if hasattr(self.optimizer, "_step_count"):  # With which a scheduler makes sure that it follows the optimizer.
            self.optimizer._step_count += 1


class _Job:
    """What join() returns: `batches` and `step`."""

    def __init__(self, trainer):
        self._trainer = trainer

    def batches(self, dataset, batch_size, epochs=1, collate=None):
        return self._trainer.batches(dataset, batch_size, epochs, collate)

    def step(self, loss):
        self._trainer.backward(loss)

    @property
    def steps(self):
        return self._trainer.step

    @property
    def loss(self):
        """The mean loss of the last step, over all logical workers."""
        return self._trainer.loss

    @property
    def leads(self):
        """Whether this process writes what the job writes."""
        return self._trainer.link is None or self._trainer.rank == 0


def join(model, optimizer, logical_workers=8, scheduler=None):
    """`scheduler` is stepped once a step; the script does not step it."""
    from . import script

    trainer = script.trainer() or Trainer(int(os.environ.get("TANGRAM_LOGICAL_WORKERS", logical_workers)))
    give = (lambda: {"scheduler": state.without_functions(scheduler.state_dict())}) if scheduler else None
    take = (lambda extra: scheduler.load_state_dict(extra["scheduler"])) if scheduler else None
    trainer.scheduler = scheduler
    trainer.start(model, optimizer, give, take)
    return _Job(trainer)
