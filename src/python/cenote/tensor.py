"""Tensors as objects: their dtype and shape stand in front of their elements.

An object that put_tensor() made, all numbers little-endian:

    offset  bytes  what
         0      4  magic "CnTn"
         4      2  version of this layout: 1
         6      1  what was put: 1 numpy, 2 torch
         7      1  number of dimensions
         8      4  offset of the elements: a multiple of 64
        12     20  name of the dtype, padded with NUL: "float32"
        32    8 n  the dimensions
       ...         zeros up to the elements, which lie in C order, without gaps

An object begins at a multiple of 256 bytes in memory, so its elements lie at one of 64.

numpy and torch are imported by the first call that needs them; without torch all is numpy.
The functions are methods of Store.
"""

import functools
import math
import struct
import sys
import warnings

from ._cenote import CenoteError

METHODS = ("put_tensor", "get_tensor", "put_tensor_batch", "get_tensor_batch")

MAGIC = b"CnTn"
VERSION = 1
NUMPY, TORCH = 1, 2
HEAD = struct.Struct("<4sHBBI20s")
ALIGN = 64
DIMENSIONS_MAX = 64
# Strided tensors up to here are made contiguous first: one round trip is less than two.
SMALL = 64 * 1024

# Bytes of an element. What numpy has no type for, it can have by the package ml_dtypes.
ITEM_SIZES = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4,
    "int64": 8, "uint64": 8, "float16": 2, "float32": 4, "float64": 8, "complex64": 8,
    "complex128": 16, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1,
}


def _is_torch(tensor):
    """Whether it is torch's, without an import of torch for those who have none."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(tensor, torch.Tensor)


def _header(kind, dtype, shape):
    if dtype not in ITEM_SIZES:
        raise TypeError(f"dtype {dtype} cannot be stored; {', '.join(ITEM_SIZES)} can")
    if len(shape) > DIMENSIONS_MAX:
        raise ValueError(f"{len(shape)} dimensions; the limit is {DIMENSIONS_MAX}")
    size = HEAD.size + 8 * len(shape)
    offset = -(-size // ALIGN) * ALIGN
    head = HEAD.pack(MAGIC, VERSION, kind, len(shape), offset, dtype.encode())
    return (head + struct.pack(f"<{len(shape)}Q", *shape)).ljust(offset, b"\0")


class _Source:
    """A tensor about to be put: its header, its bytes, and how to copy it elsewhere."""

    def __init__(self, tensor):
        import numpy
        if _is_torch(tensor):
            import torch
            if tensor.layout != torch.strided or tensor.is_quantized:
                raise TypeError(f"{tensor.layout} tensors, and quantized ones, cannot be stored")
            tensor = tensor.detach().resolve_conj().resolve_neg()
            kind, dtype = TORCH, str(tensor.dtype).removeprefix("torch.")
            self.contiguous = tensor.is_contiguous() and tensor.device.type == "cpu"
            self.size = tensor.numel() * tensor.element_size()
        else:
            tensor = numpy.asarray(tensor)
            kind, dtype = NUMPY, tensor.dtype.name
            self.contiguous = tensor.flags.c_contiguous and tensor.dtype.isnative
            self.size = tensor.nbytes
        self.tensor = tensor
        self.kind = kind
        self.header = _header(kind, dtype, tensor.shape)

    @property
    def total(self):
        return len(self.header) + self.size

    @property
    def in_place(self):
        """Whether it is better written into the pool than made contiguous before."""
        return not self.contiguous and self.size > SMALL

    def parts(self):
        """The buffers to put one behind the other."""
        import numpy
        tensor = self.tensor
        if self.size == 0:
            return [self.header]
        if self.kind == TORCH:
            import torch
            flat = tensor.cpu().contiguous().reshape(-1).view(torch.uint8)
            return [self.header, flat.numpy()]
        native = tensor.dtype.newbyteorder("=")
        flat = numpy.ascontiguousarray(tensor, dtype=native).reshape(-1)
        return [self.header, flat.view(numpy.uint8)]

    def write(self, writer):
        """Copies it into a Writer, which no view of this function outlives."""
        start = len(self.header)
        writer[:start] = self.header
        if self.kind == TORCH:
            import torch
            there = torch.frombuffer(writer, dtype=self.tensor.dtype, offset=start)
            there.reshape(self.tensor.shape).copy_(self.tensor)
        else:
            import numpy
            native = self.tensor.dtype.newbyteorder("=")
            there = numpy.frombuffer(writer, native, offset=start)
            numpy.copyto(there.reshape(self.tensor.shape), self.tensor)


def put_tensor(self, key, tensor, *, softpin=False, ttl=None, readers=0, durable=False,
               replicas=1, replicas_required=False, replace=False, timeout=10.0):
    """Store a numpy array or torch tensor with its dtype and shape.

    A contiguous one is copied once, into the pool; so is a large strided one, or one on
    another device. Options, result and errors are those of put(); TypeError: a dtype that cannot
    be stored, such as object, or a sparse tensor.
    """
    source = _Source(tensor)
    options = {"softpin": softpin, "ttl": ttl, "readers": readers, "durable": durable,
               "replicas": replicas, "replicas_required": replicas_required,
               "replace": replace, "timeout": timeout}
    if not source.in_place:
        return self.put_parts(key, source.parts(), **options)
    with self.create(key, source.total, **options) as writer:
        source.write(writer)
    return writer.keepers


def put_tensor_batch(self, keys, tensors, *, softpin=False, ttl=None, readers=0, durable=False,
                     replicas=1, replicas_required=False, replace=False, timeout=10.0):
    """put_tensor() of many keys; returns what put_batch() does."""
    sources = [_Source(tensor).parts() for tensor in tensors]
    return self.put_batch(keys, sources, softpin=softpin, ttl=ttl, readers=readers,
                          durable=durable, replicas=replicas,
                          replicas_required=replicas_required, replace=replace, timeout=timeout)


def get_tensor(self, key, *, wait=False, timeout=10.0, framework=None):
    """Return the tensor of a key, in place: no copy, and the hold ends with it.

    framework: "numpy" or "torch"; None is what was put, or numpy where torch is not
    installed. A numpy array is read-only. Torch has no such tensors: writing to one of
    these changes the object for everybody, or ends the process if the store is read_only.

    Errors are those of get(). ValueError: the object is no tensor, or there is no such
    framework; nothing was read then. TypeError: a dtype that
    the framework does not have; numpy has bfloat16 and float8 with the package ml_dtypes.
    """
    _check_framework(framework)
    return _open(self.get(key, wait=wait, timeout=timeout), key, framework)


def get_tensor_batch(self, keys, *, wait=False, timeout=10.0, framework=None):
    """get_tensor() of many keys; returns a list of tensors or exceptions, as get_batch()."""
    _check_framework(framework)
    keys = tuple(keys) if not isinstance(keys, (str, bytes)) else keys
    got = self.get_batch(keys, wait=wait, timeout=timeout)
    for i, key in enumerate(keys):
        if not isinstance(got[i], CenoteError):
            try:
                got[i] = _open(got[i], key, framework)
            except (TypeError, ValueError) as error:
                # A traceback would keep this frame, and in it all tensors of the batch.
                got[i] = error.with_traceback(None)
    return got


def _check_framework(framework):
    """Before the get, which may be the last read that an object has."""
    if framework not in (None, "numpy", "torch"):
        raise ValueError(f"framework is 'numpy', 'torch' or None, not {framework!r}")


def _parse(view, key):
    """(kind, dtype, shape, offset), all of it checked against the object's size."""
    if len(view) < HEAD.size or view[:4] != MAGIC:
        raise ValueError(f"the object of key {key!r} is no tensor")
    _, version, kind, count, offset, name = HEAD.unpack_from(view)
    if version != VERSION:
        raise ValueError(f"key {key!r} is a tensor of layout {version}; known is {VERSION}")
    dtype = name.rstrip(b"\0").decode("ascii", "replace")
    if dtype not in ITEM_SIZES or not HEAD.size + 8 * count <= offset <= len(view):
        raise ValueError(f"the tensor of key {key!r} has a broken header")
    shape = struct.unpack_from(f"<{count}Q", view, HEAD.size)
    if offset + math.prod(shape) * ITEM_SIZES[dtype] != len(view):
        raise ValueError(f"the tensor of key {key!r} has another size than its header says")
    return kind, dtype, shape, offset


def _open(buffer, key, framework):
    view = memoryview(buffer)
    kind, dtype, shape, offset = _parse(view, key)
    if framework is None:
        framework = "torch" if kind == TORCH and _import_torch() else "numpy"
    if framework == "numpy":
        return _open_numpy(view, key, dtype, shape, offset)
    return _open_torch(view, key, dtype, shape, offset)


def _open_numpy(view, key, name, shape, offset):
    import numpy
    try:
        dtype = numpy.dtype(name)
    except TypeError:
        dtype = _more_dtypes(name, key)
    if 0 in shape:
        return numpy.empty(shape, dtype)
    return numpy.frombuffer(view[offset:], dtype).reshape(shape)


def _more_dtypes(name, key):
    import numpy
    try:
        import ml_dtypes
        return numpy.dtype(getattr(ml_dtypes, name))
    except (ImportError, AttributeError):
        raise TypeError(f"key {key!r} is of dtype {name}, which numpy has not; "
                        "install ml_dtypes, or use framework='torch'") from None


def _open_torch(view, key, name, shape, offset):
    torch = _import_torch()
    if torch is None:
        raise TypeError(f"key {key!r}: torch is not installed; use framework='numpy'")
    dtype = getattr(torch, name, None)
    if dtype is None:
        raise TypeError(f"key {key!r} is of dtype {name}, which this torch has not; "
                        "use framework='numpy'")
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(view, dtype=dtype, offset=offset).reshape(shape)


@functools.cache
def _import_torch():
    """torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    # Torch warns once that a tensor over read-only memory can be written to. Have it do so
    # now, unheard: the docstring of get_tensor() says it where it can be read before.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.frombuffer(b"\0", dtype=torch.uint8)
    return torch
