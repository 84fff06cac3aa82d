"""Bytes that tell which object, which version of it, and which place in it they are of."""

import functools
import hashlib
import random

from .case import Failure

CHUNK = 1 << 20
SPAN = 8 << 20


@functools.lru_cache(maxsize=1)
def noise():
    return random.Random(1).randbytes(SPAN + CHUNK)


def pattern(key, version, size):
    pieces = []
    for start in range(0, size, CHUNK):
        name = f"{key}/{version}/{size}/{start}".encode()
        at = int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little") % SPAN
        pieces.append(noise()[at:at + min(CHUNK, size - start)])
    return b"".join(pieces)


def put(store, key, version, size, **options):
    store.put(key, pattern(key, version, size), **options)


def check(got, key, version, size):
    """All bytes of what a get gave: a buffer, which is released, or a copy."""
    if isinstance(got, Exception):  # as a batch gives them
        raise got
    try:
        data = bytes(got)
    finally:
        if hasattr(got, "release"):
            got.release()
    right = pattern(key, version, size)
    if data == right:
        return
    if len(data) != size:
        raise Failure(f"{key}: {len(data)} bytes, not {size}")
    at = next(i for i in range(size) if data[i] != right[i])
    raise Failure(f"{key}: wrong byte at {at} of {size}: {data[at:at + 16].hex()}, not {right[at:at + 16].hex()}")
