#!/usr/bin/env python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The operations of device_ops in PyTorch 2.x on the same GPU: same sizes, same formulas for bytes,
same columns, and a copy measured around each operation.

    pytorch_ops.py [--mib=1024] [--rounds=30] [--beside=FILE] [--skip=0]
    pytorch_ops.py --list

FILE is the output of device_ops; its arrays have the same size, and each of its operations is
compared with PyTorch's. PyTorch has no FTRL. It has no row-wise Adagrad either; this program
computes it with operations on indexed rows. PyTorch always computes the loss. Ids are drawn on the
GPU; Zipf-distributed ids have the density of device_ops. After a CUDA error, every later
operation of the process would fail: the program exits with code 1, and --skip continues after
the operation in another process. Exit code 3, with a line that gives the reason, without PyTorch or
without CUDA support in it.
"""

import argparse
import re
import statistics
import sys
import time

BAG_ROWS = 20
GRADIENT_BAG_ROWS = 16
COLUMNS = 1024
EXPONENT = 1.05  # of the Zipf distribution
WARM_UP_S = 0.1


def give_up(why):
    print("pytorch_ops: %s" % why, file=sys.stderr)
    sys.exit(3)


def load_torch():
    try:
        import torch
    except ImportError as error:
        give_up("no PyTorch in %s: %s" % (sys.executable, error))
    if not torch.cuda.is_available():
        give_up("PyTorch %s sees no CUDA device" % torch.__version__)
    return torch


class Work:
    """The arrays of device_ops; as rows, they have `dim` columns."""

    def __init__(self, torch, n_elems):
        self.torch = torch
        self.functional = torch.nn.functional
        self.n_elems = n_elems
        generator = torch.Generator(device="cuda").manual_seed(0)
        self.generator = generator
        self.a = torch.rand(n_elems, device="cuda", generator=generator) + 0.001
        self.b = torch.rand(n_elems, device="cuda", generator=generator) + 0.001

    def ids(self, dim, n, n_copies=1):
        rows = self.n_elems // dim // n_copies
        ids = self.torch.arange(n, device="cuda", dtype=self.torch.int64)
        return ids * 0x9E3779B1 % rows

    def zipf_ids(self, dim, n):
        """The inverse of the integral of the density, while device_ops draws from its sum."""
        rows = self.n_elems // dim
        drawn = self.torch.rand(n, device="cuda", generator=self.generator,
                                dtype=self.torch.float64)
        top = (rows + 1) ** (1 - EXPONENT) - 1
        numbers = (1 + drawn * top) ** (1 / (1 - EXPONENT)) - 1
        return numbers.to(self.torch.int64).clamp_(0, rows - 1) * 0x9E3779B1 % rows

    def rows(self, values, dim):
        return values.view(-1, dim)


def copy(work):
    return lambda: work.a.copy_(work.b), 8 * work.n_elems


def accumulate(work):
    return lambda: work.a.add_(work.b), 12 * work.n_elems


def fill(work):
    return lambda: work.a.fill_(1.5), 4 * work.n_elems


def with_halves(dtype, make_run, n_bytes):
    """An operation on `b` as `dtype`; `n_bytes` per element."""

    def make(work):
        halves = work.b.to(getattr(work.torch, dtype))
        return make_run(work, halves), n_bytes * work.n_elems

    return make


def accumulate_halves(dtype):
    return with_halves(dtype, lambda work, halves: lambda: work.a.add_(halves), 10)


def cast(dtype):
    return with_halves(dtype, lambda work, halves: lambda: halves.copy_(work.b), 6)


def scale(work):
    return lambda: work.torch.mul(work.b, 0.3, out=work.a), 8 * work.n_elems


def scale_halves(dtype):
    return with_halves(
        dtype, lambda work, halves: lambda: work.torch.mul(halves, 0.3, out=work.a), 6)


def scale_accumulate(work):
    return lambda: work.a.add_(work.b, alpha=0.3), 12 * work.n_elems


def scale_accumulate_halves(dtype):
    return with_halves(dtype, lambda work, halves: lambda: work.a.add_(halves, alpha=0.3), 10)


def divide(work):
    return lambda: work.torch.div(work.b, 3.0, out=work.a), 8 * work.n_elems


def divide_to_halves(dtype):
    return with_halves(
        dtype, lambda work, halves: lambda: work.torch.div(work.b, 3.0, out=halves), 6)


def optimizer(name, bytes_per_elem, **options):
    """A step of torch.optim, in its fused form if there is one."""

    def make(work):
        work.a.requires_grad_(True)
        work.a.grad = work.b
        kind = getattr(work.torch.optim, name)
        try:
            step = kind([work.a], lr=1e-4, fused=True, **options).step
        except (TypeError, RuntimeError):
            step = kind([work.a], lr=1e-4, foreach=True, **options).step
        return step, bytes_per_elem * work.n_elems

    return make


def sparse_optimizer(name, dim, bytes_per_elem):
    """A step of torch.optim for listed rows; each row is listed once."""

    def make(work):
        table = work.rows(work.a, dim).detach().requires_grad_(True)
        ids = work.ids(dim, len(table)).view(1, -1)
        table.grad = work.torch.sparse_coo_tensor(ids, work.rows(work.b, dim), table.shape,
                                                  is_coalesced=True)
        step = getattr(work.torch.optim, name)([table], lr=1e-4).step
        return step, bytes_per_elem * work.n_elems + 8 * len(table)

    return make


def step_rowwise(table, state, ids, gradient):
    state.index_add_(0, ids, gradient.pow(2).mean(1))
    rate = 1e-4 / (state[ids].sqrt() + 1e-8)
    table.index_add_(0, ids, gradient * rate.unsqueeze(1), alpha=-1)


def rowwise_adagrad(dim):
    def make(work):
        table, gradient = work.rows(work.a, dim), work.rows(work.b, dim)
        state = work.torch.zeros(len(table), device="cuda")
        ids = work.ids(dim, len(table))
        return (lambda: step_rowwise(table, state, ids, gradient),
                12 * work.n_elems + 16 * len(table))

    return make


def push_zipf(dim):
    """Equal ids are added, and row-wise Adagrad updates their rows."""

    def make(work):
        table, values = work.rows(work.a, dim), work.rows(work.b, dim)
        state = work.torch.zeros(len(table), device="cuda")
        ids = work.zipf_ids(dim, len(table)).view(1, -1)
        n_different = len(work.torch.unique(ids))
        n_bytes = len(table) * (dim * 4 + 8) + n_different * 2 * (dim * 4 + 4)

        def run():
            gradient = work.torch.sparse_coo_tensor(ids, values, table.shape).coalesce()
            step_rowwise(table, state, gradient.indices()[0], gradient.values())

        return run, n_bytes

    return make


def gather(dim, is_zipf=False):
    def make(work):
        ids = (work.zipf_ids if is_zipf else work.ids)(dim, work.n_elems // dim)
        table, out = work.rows(work.b, dim), work.rows(work.a, dim)
        n_bytes = len(ids) * (dim * 4 + 8) + len(ids) * dim * 4
        return lambda: work.torch.index_select(table, 0, ids, out=out), n_bytes

    return make


def pool_arguments(work, dim, bag_rows, is_zipf=False):
    n_bags = work.n_elems // dim // bag_rows
    ids = (work.zipf_ids if is_zipf else work.ids)(dim, n_bags * bag_rows).view(n_bags, bag_rows)
    return ids, n_bags * bag_rows * (dim * 4 + 8) + n_bags * dim * 4


def pool(dim, is_zipf=False):
    def make(work):
        ids, n_bytes = pool_arguments(work, dim, BAG_ROWS, is_zipf)
        table = work.rows(work.b, dim)
        return lambda: work.functional.embedding_bag(ids, table, mode="sum"), n_bytes

    return make


def pool_gradient(dim):
    """Rows with unique ids, as in device_ops."""

    def make(work):
        ids, n_bytes = pool_arguments(work, dim, GRADIENT_BAG_ROWS)
        table = work.rows(work.b, dim).requires_grad_(True)
        with work.torch.enable_grad():
            output = work.functional.embedding_bag(ids, table, mode="sum", sparse=True)
        gradient = work.rows(work.a, dim)[: len(ids)]

        def run():
            rows, = work.torch.autograd.grad(output, table, gradient, retain_graph=True)
            rows.coalesce()

        return run, n_bytes

    return make


def coalesce(dim, n_copies):
    def make(work):
        n_rows = work.n_elems // dim
        ids = work.ids(dim, n_rows, n_copies).view(1, n_rows)
        values = work.rows(work.b, dim)
        n_bytes = (n_rows + n_rows // n_copies) * (dim * 4 + 8)
        return lambda: work.torch.sparse_coo_tensor(ids, values, (n_rows, dim)).coalesce(), n_bytes

    return make


def add_bias(work):
    rows, bias = work.rows(work.a, COLUMNS), work.b[:COLUMNS]
    return lambda: rows.add_(bias), 8 * work.n_elems


def column_sum(work):
    rows = work.rows(work.b, COLUMNS)
    return lambda: work.torch.sum(rows, 0), 4 * work.n_elems


def relu(work):
    return lambda: work.torch.clamp_min(work.b, 0, out=work.a), 8 * work.n_elems


def relu_gradient(work):
    output = work.b * 2
    return lambda: work.torch.ops.aten.threshold_backward(work.b, output, 0), 12 * work.n_elems


def softmax(work):
    rows, out = work.rows(work.b, COLUMNS), work.rows(work.a, COLUMNS)
    return lambda: work.torch.softmax(rows, 1, out=out), 8 * work.n_elems


def softmax_gradient(work):
    output, gradient = work.rows(work.a, COLUMNS), work.rows(work.b, COLUMNS)
    return (lambda: work.torch.ops.aten._softmax_backward_data(gradient, output, 1,
                                                               work.torch.float32),
            12 * work.n_elems)


def with_gradient(work, values, loss, n_bytes):
    values = values.requires_grad_(True)

    def run():
        with work.torch.enable_grad():
            work.torch.autograd.grad(loss(values), values)

    return run, n_bytes


def cross_entropy(work):
    rows = work.rows(work.b, COLUMNS)
    target = work.torch.arange(len(rows), device="cuda") * 0x9E3779B1 % COLUMNS
    return with_gradient(work, rows, lambda values: work.functional.cross_entropy(values, target),
                         8 * work.n_elems)


def l1_loss(work):
    target = work.a
    return with_gradient(work, work.b, lambda values: work.functional.l1_loss(values, target),
                         12 * work.n_elems)


def product(work):
    side = 1 << (work.n_elems.bit_length() - 1) // 2
    left, out = (values[: side * side].view(side, side) for values in (work.b, work.a))
    return lambda: work.torch.mm(left, left, out=out), 12 * work.n_elems


CASES = [
    ("copy", copy),
    ("accumulate", accumulate),
    ("accumulate float16", accumulate_halves("float16")),
    ("accumulate bfloat16", accumulate_halves("bfloat16")),
    ("sgd", optimizer("SGD", 12)),
    ("row-wise adagrad, dim 64", rowwise_adagrad(64)),
    ("row-wise adagrad, dim 128", rowwise_adagrad(128)),
    ("adagrad of rows, dim 64", sparse_optimizer("Adagrad", 64, 20)),
    ("adam of rows, dim 64", sparse_optimizer("SparseAdam", 64, 28)),
    ("gather, dim 64", gather(64)),
    ("gather, dim 128", gather(128)),
    ("gather, dim 64, zipf", gather(64, is_zipf=True)),
    ("pool of 20, dim 64", pool(64)),
    ("pool of 20, dim 128", pool(128)),
    ("pool of 20, dim 64, zipf", pool(64, is_zipf=True)),
    ("pool's gradient, dim 64", pool_gradient(64)),
    ("coalesce 4 to 1, dim 64", coalesce(64, 4)),
    ("push, dim 64, zipf", push_zipf(64)),
    ("fill", fill),
    ("cast to float16", cast("float16")),
    ("cast to bfloat16", cast("bfloat16")),
    ("scale", scale),
    ("scale float16", scale_halves("float16")),
    ("scale bfloat16", scale_halves("bfloat16")),
    ("scale and accumulate", scale_accumulate),
    ("scale and add bfloat16", scale_accumulate_halves("bfloat16")),
    ("divide", divide),
    ("divide to float16", divide_to_halves("float16")),
    ("divide to bfloat16", divide_to_halves("bfloat16")),
    ("sgd, momentum", optimizer("SGD", 20, momentum=0.9)),
    ("adagrad", optimizer("Adagrad", 20)),
    ("adam", optimizer("Adam", 28)),
    ("add bias", add_bias),
    ("sum of columns", column_sum),
    ("relu", relu),
    ("relu's gradient", relu_gradient),
    ("softmax", softmax),
    ("softmax's gradient", softmax_gradient),
    ("cross-entropy", cross_entropy),
    ("cross-entropy with loss", cross_entropy),
    ("l1 loss", l1_loss),
    ("l1 with loss", l1_loss),
    ("product of matrices", product),
]


def warm_up(torch, run):
    end = time.monotonic() + WARM_UP_S
    while True:
        run()
        torch.cuda.synchronize()
        if time.monotonic() >= end:
            return


def rate_of(torch, run, n_bytes, n_rounds):
    """GB/s, from the median of the rounds."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    warm_up(torch, run)
    for _ in range(n_rounds):
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return n_bytes / statistics.median(times) / 1e6


class Ours:
    """The output of device_ops: the size of its arrays, and GB/s by operation."""

    def __init__(self, path=None):
        self.mib, self.rates = None, {}
        if path is None:
            return
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                name, rest = line[:28].strip(), line[28:].split()
                size = re.fullmatch(r"operation, +([0-9]+) MiB", name)
                if size:
                    self.mib = int(size[1])
                elif rest and rest[0].replace(".", "", 1).isdigit():
                    self.rates[name] = float(rest[0])


def is_lasting(error):
    """Whether an error breaks the process's CUDA context."""
    words = str(error)
    return ("CUDA error" in words or "cudaError" in words or "CUBLAS_STATUS" in words) \
        and "out of memory" not in words


def find_size(torch, mib):
    """The largest size up to `mib` for which there is memory."""
    while mib > 1:
        try:
            Work(torch, mib << 18)
            break
        except RuntimeError as error:
            if "out of memory" not in str(error):
                break
            mib //= 2
    return mib


def measure(torch, make, mib, n_rounds):
    """GB/s of the operation and, before and after it, of copies."""
    work = Work(torch, mib << 18)
    with torch.no_grad():
        before = rate_of(torch, *copy(work), n_rounds)
        rate = rate_of(torch, *make(work), n_rounds)
        return rate, (before + rate_of(torch, *copy(work), n_rounds)) / 2


def print_verdict(ratios):
    behind = [name for name, ratio in ratios.items() if ratio < 1]
    print("%d of %d operations are at least level with PyTorch's%s" % (
        len(ratios) - len(behind), len(ratios), "; not: " + "; ".join(behind) if behind else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=1024, help="size of an array")
    parser.add_argument("--rounds", type=int, default=30, help="the median of so many counts")
    parser.add_argument("--beside", type=Ours, default=Ours(), metavar="FILE",
                        help="output of device_ops")
    parser.add_argument("--skip", type=int, default=0,
                        help="operations to leave out, the first ones")
    parser.add_argument("--list", action="store_true", help="print the operations")
    flags = parser.parse_args()
    if flags.list:
        print("\n".join(name for name, _ in CASES))
        return
    sys.stdout.reconfigure(line_buffering=True)  # so that lines survive a kill
    torch = load_torch()
    torch.backends.cuda.matmul.allow_tf32 = False
    print("PyTorch %s, %s" % (torch.__version__, torch.cuda.get_device_name()))
    mib = find_size(torch, flags.beside.mib or flags.mib)
    print("%-28s %10s %8s %8s" % ("operation, %8d MiB" % mib, "GB/s", "of copy", "ours/it"))
    ratios = {}
    for name, make in CASES[flags.skip:]:
        try:
            rate, of_copy = measure(torch, make, mib, flags.rounds)
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            reason = (str(error) or "failed").splitlines()[0]
            print("%-28s %10s %8s %8s  %s" % (name, "-", "-", "-", reason))
            if is_lasting(error):
                sys.exit(1)
            continue
        if name in flags.beside.rates and name != "copy":
            ratios[name] = flags.beside.rates[name] / rate
        print("%-28s %10.1f %8.2f %8s" % (name, rate, rate / of_copy,
                                          "%.2f" % ratios[name] if name in ratios else "-"))
    if ratios:
        print_verdict(ratios)


if __name__ == "__main__":
    main()
