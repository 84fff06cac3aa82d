"""Tensors of torch, where it is installed."""

import warnings

import numpy
import pytest

torch = pytest.importorskip("torch")

DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16,
          torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]


def same(got, want):
    return got.dtype == want.dtype and got.shape == want.shape and torch.equal(got, want)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(store, dtype):
    tensor = (torch.arange(15) % 2).to(dtype).reshape(3, 5)
    store.put_tensor("k", tensor)
    got = store.get_tensor("k")
    assert isinstance(got, torch.Tensor) and same(got, tensor)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3, 4, 5), (70_000,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_shapes(store, shape, dtype):
    tensor = torch.ones(shape, dtype=dtype)
    store.put_tensor("k", tensor)
    assert same(store.get_tensor("k"), tensor)


STRIDED = {
    "transposed": lambda t: t.t(),
    "every second": lambda t: t[::2, 1::3],
    "expanded": lambda t: t[:1].expand(t.shape),
    "conjugate": lambda t: t.to(torch.complex64).conj(),
    "with a gradient": lambda t: t.float().requires_grad_(),
}


@pytest.mark.parametrize("side", [20, 500], ids=["small", "in place"])
@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED.keys())
def test_strided(store, make, side):
    tensor = make(torch.arange(side * side).reshape(side, side).to(torch.bfloat16))
    store.put_tensor("k", tensor)
    got = store.get_tensor("k")
    assert got.is_contiguous() and not got.requires_grad and same(got, tensor.detach().resolve_conj())


def test_in_place_and_held(store):
    store.put_tensor("k", torch.arange(1000))
    got = store.get_tensor("k")
    address, size = store.pool_region()
    assert address <= got.data_ptr() < address + size and got.data_ptr() % 64 == 0
    assert store.stat("k").holds == 1
    part = got[990:]
    del got
    assert store.stat("k").holds == 1 and part[9] == 999
    del part
    assert store.stat("k").holds == 0


def test_frombuffer_keeps_the_hold(store):
    store.put("k", numpy.arange(1000))
    buffer = store.get("k")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tensor = torch.frombuffer(buffer, dtype=torch.int64)
    with pytest.raises(BufferError, match="views live"):
        buffer.release()
    del buffer
    assert store.stat("k").holds == 1 and tensor[999] == 999
    del tensor
    assert store.stat("k").holds == 0


def test_get_tensor_does_not_warn(store):
    store.put_tensor("k", torch.arange(3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert store.get_tensor("k")[2] == 2


def test_frameworks(store):
    store.put_tensor("t", torch.arange(3))
    store.put_tensor("n", numpy.arange(3))
    assert isinstance(store.get_tensor("t"), torch.Tensor)
    assert isinstance(store.get_tensor("n"), numpy.ndarray)
    assert isinstance(store.get_tensor("t", framework="numpy"), numpy.ndarray)
    assert torch.equal(store.get_tensor("n", framework="torch"), torch.arange(3))
    store.put_tensor("u", numpy.arange(3, dtype=numpy.uint16))
    if not hasattr(torch, "uint16"):
        with pytest.raises(TypeError, match="uint16"):
            store.get_tensor("u", framework="torch")


def test_sparse_is_refused(store):
    with pytest.raises(TypeError, match="cannot be stored"):
        store.put_tensor("k", torch.eye(3).to_sparse())


def test_batches(store):
    tensors = [torch.arange(5), torch.tensor(1.5, dtype=torch.bfloat16), torch.zeros(0, 3)]
    assert store.put_tensor_batch(["a", "b", "c"], tensors) == [None] * 3
    for got, want in zip(store.get_tensor_batch(["a", "b", "c"]), tensors):
        assert same(got, want)


def test_data_loader_workers(store):
    """The store of the parent in forked workers, that attach themselves."""
    for i in range(20):
        store.put_tensor(f"row/{i}", torch.full((4,), i))

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 20

        def __getitem__(self, i):
            return store.get_tensor(f"row/{i}").clone()

    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=5, num_workers=2, multiprocessing_context="fork",
        worker_init_fn=lambda number: store.reattach())
    assert torch.cat(list(loader))[:, 0].tolist() == list(range(20))
