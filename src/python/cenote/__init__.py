"""Put, get and remove large immutable objects in the shared memory of a node.

    import cenote, numpy

    store = cenote.connect()
    store.put("step/7/logits", numpy.arange(1024, dtype=numpy.float32))
    with store.get("step/7/logits") as buffer:        # in place, no copy
        total = numpy.frombuffer(buffer, numpy.float32).sum()
    store.remove("step/7/logits")                      # never waits for readers

Units     sizes in bytes, times in seconds.
Keys      str, as UTF-8, or bytes: 1 to 1,024 of them, any but NUL.
Memory    what get() returns stays as it is while it or any view of it lives.
Errors    exceptions under CenoteError, a class per kind, with `code` and `key`; a batch
          puts them into its list of results instead. Some calls answer absence by False.
Deadline  10 s (create: 60 s to its end) unless timeout= says otherwise; None = for ever.
Cluster   of nodes with one directory every call is about the objects of all of them. A
          node that is cut off may serve a removed object until it is heard from.
Threads   any thread may make any call; the interpreter lock is free while one waits or
          copies.
Fork      in a forked child every call is a ForkedError until Store.reattach().
"""

from . import _cenote
from ._cenote import (
    BadArgument,
    BadKey,
    Buffer,
    BufferTooSmall,
    Busy,
    CenoteError,
    Corrupt,
    Entry,
    Exists,
    ForkedError,
    InternalError,
    IoError,
    LeaseExpired,
    Lost,
    NoMemory,
    NoSpace,
    NotFound,
    NotPermitted,
    NotReady,
    NotSupported,
    ProtocolError,
    Removed,
    RpcFailed,
    Stale,
    Stat,
    Store,
    Timeout,
    TooLarge,
    TooMany,
    TransferFailed,
    Unavailable,
    VersionError,
    Writer,
    __version__,
    connect,
    get_fault_status,
    inject_fault,
)
from . import tensor as _tensor

__all__ = [name for name in dir(_cenote) if not name.startswith("_")]

for _name in _tensor.METHODS:
    setattr(Store, _name, getattr(_tensor, _name))
del _name
