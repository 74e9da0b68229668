"""A training state as one block of bytes, so that a copy costs little more than copying its memory."""

import copy
import ctypes
import io
import os
import pickle
import zlib

import torch

from .errors import Refused


class _Slot:
    """Stands for a tensor in the pickled skeleton."""

    def __init__(self, offset, dtype, shape):
        self.offset, self.dtype, self.shape = offset, dtype, shape


_ALIGNMENT = 16
_ADMITTED = {
    (__name__, "_Slot"),
    ("collections", "OrderedDict"),
    ("collections", "Counter"),
    ("collections", "defaultdict"),
    ("builtins", "dict"),  # What a defaultdict makes.
    ("builtins", "list"),
    ("builtins", "int"),
    ("builtins", "float"),
    ("torch", "Size"),
}


class _Unpickler(pickle.Unpickler):
    """Makes nothing but what training states consist of, so that no state can run code."""

    def find_class(self, module, name):
        if (module, name) in _ADMITTED or (module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)):
            return super().find_class(module, name)
        raise Refused("a training state holds a %s.%s; expected numbers, texts, tensors, lists, tuples and dicts"
                      % (module, name))  # fmt: skip


def without_functions(value):
    """The state of a scheduler without its functions, such as OneCycleLR's: each trainer's scheduler has its own."""
    if isinstance(value, dict):
        items = {key: without_functions(item) for key, item in value.items() if not callable(item)}
        return _with_items(value, items)
    return [without_functions(item) for item in value] if isinstance(value, list) else value


def _with_items(value, items):
    """A dict like `value`, of its own type, with `items` at the same keys."""
    if type(value) is dict:
        return items
    made = copy.copy(value)
    dict.update(made, items)  # Not its own: Counter would add the counts.
    return made


def _walk(value, take):
    if isinstance(value, torch.Tensor):
        return take(value)
    if isinstance(value, dict):
        return _with_items(value, {key: _walk(item, take) for key, item in value.items()})
    if isinstance(value, list):
        return [_walk(item, take) for item in value]
    if type(value) is tuple:
        return tuple(_walk(item, take) for item in value)
    return value


def _bytes_of(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def pack(value):
    """A uint8 tensor that holds a copy of `value`: nested dicts, lists and tuples with tensors."""
    parts, offset = [], 0

    def take(tensor):
        nonlocal offset
        data = _bytes_of(tensor)
        slot = _Slot(offset, tensor.dtype, tuple(tensor.shape))
        parts.append((offset, data))
        offset += -(-data.numel() // _ALIGNMENT) * _ALIGNMENT
        return slot

    skeleton = pickle.dumps(_walk(value, take), protocol=4)
    head = 16 + -(-len(skeleton) // _ALIGNMENT) * _ALIGNMENT
    block = torch.zeros(head + offset, dtype=torch.uint8)
    block[:8].view(torch.int64)[0] = len(skeleton)
    ctypes.memmove(block.data_ptr() + 16, skeleton, len(skeleton))
    for at, data in parts:
        block[head + at : head + at + data.numel()] = data
    return block


def unpack(block):
    """What pack() was given. The tensors are views of `block`."""
    length = int(block[:8].view(torch.int64)[0])
    head = 16 + -(-length // _ALIGNMENT) * _ALIGNMENT
    skeleton = _Unpickler(io.BytesIO(ctypes.string_at(block.data_ptr() + 16, length))).load()

    def give(value):
        if isinstance(value, _Slot):
            count = torch.empty(0, dtype=value.dtype).element_size()
            for size in value.shape:
                count *= size
            return block[head + value.offset : head + value.offset + count].view(value.dtype).reshape(value.shape)
        if isinstance(value, dict):
            return _with_items(value, {key: give(item) for key, item in value.items()})
        if isinstance(value, list):
            return [give(item) for item in value]
        if type(value) is tuple:
            return tuple(give(item) for item in value)
        return value

    return give(skeleton)


def checksum(value):
    """The CRC-32 of all tensors of `value`, in order."""
    crc = 0

    def take(tensor):
        nonlocal crc
        data = _bytes_of(tensor)
        if data.numel() > 0:
            crc = zlib.crc32((ctypes.c_ubyte * data.numel()).from_address(data.data_ptr()), crc)
        return None

    _walk(value, take)
    return crc


def save(block, path):
    """Whole or not at all."""
    temporary = "%s.%d.part" % (path, os.getpid())
    with io.open(temporary, "wb") as file:
        file.write((ctypes.c_ubyte * block.numel()).from_address(block.data_ptr()))
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def load(path):
    with io.open(path, "rb") as file:
        data = bytearray(file.read())
    return torch.frombuffer(data, dtype=torch.uint8)
