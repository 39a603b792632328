# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The common part of the peers of //bench:dlrm: their command line, samples, steps and requests.

    SCRIPT --samples=FILE --batch=N --dim=N --rows=N,N,... --bag-lengths=N,N,...
           --optimizer=NAME --lr=X --threads=N --seed=N --rank=N --ranks=N --store=FILE

Each of the `ranks` processes trains `batch` samples of a step. The samples file contains the steps
one after another: labels and 13 dense features of the samples of all ranks (float32), and the ids
of each table (int64). The ranks join through the file of --store, which must not exist.

A script prints one line with its version, which starts with "torch", or "skip REASON" if it cannot
run; then "ready" when all ranks have joined. For each line "FIRST STEPS FILE" it trains that many
steps from number FIRST on, writes its measurements to FILE (bench/dlrm/pass_file.h) and replies "ok
SECONDS". It ends at the end of its standard input.

The dense layers are those of bench/dlrm/dense_part.c. Their optimizer is SGD.
"""

import argparse
import array
import os
import sys
import time
import warnings

# PyTorch reads these variables when it is loaded. All ranks are on this host.
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
# Large tensors are in huge pages (PyTorch 2).
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
warnings.showwarning = lambda *_, **__: None

import torch
import torch.distributed as dist
from torch import nn

N_DENSE = 13
OPTIMIZERS = ("ADAGRAD", "ADAM", "ROWWISE_ADAGRAD", "SGD")


def parse_arguments(description):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("batch", "dim", "threads", "seed", "rank", "ranks"):
        parser.add_argument("--" + name, type=int, required=True)
    for name in ("samples", "store"):
        parser.add_argument("--" + name, required=True)
    for name in ("rows", "bag-lengths"):
        parser.add_argument("--" + name, required=True,
                            type=lambda text: [int(number) for number in text.split(",")])
    parser.add_argument("--optimizer", choices=OPTIMIZERS, required=True)
    parser.add_argument("--lr", type=float, required=True)
    return parser.parse_args()


def make_layers(widths, ends_linear):
    layers = []
    for n_in, n_out in zip(widths, widths[1:]):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1] if ends_linear else layers)


class Dlrm(nn.Module):
    """The model. A script's subclass looks up the vectors of the bags."""

    def __init__(self, n_tables, dim):
        super().__init__()
        n_vectors = n_tables + 1
        self.dim = dim
        self.pairs = torch.tril_indices(n_vectors, n_vectors, offset=-1)
        self.bottom = make_layers([N_DENSE, 512, 256, dim], False)
        self.top = make_layers([dim + self.pairs.shape[1], 512, 256, 1], True)
        self.looked_up_at = 0.0

    def get_dense_parameters(self):
        return list(self.bottom.parameters()) + list(self.top.parameters())

    def look_up(self, ids):
        """Starts the lookup of the vectors, which finish_lookup() completes."""
        raise NotImplementedError

    def finish_lookup(self, vectors):
        """A list of tensors [batch, n * dim], which together contain the vectors of all bags."""
        raise NotImplementedError

    def forward(self, dense, ids):
        vectors = self.look_up(ids)
        self.looked_up_at = time.perf_counter()
        bottom = self.bottom(dense)
        features = torch.cat([bottom] + self.finish_lookup(vectors), dim=1)
        features = features.reshape(features.shape[0], -1, self.dim)
        products = torch.bmm(features, features.transpose(1, 2))
        pairs = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([bottom, pairs], dim=1)).squeeze(1)


class Samples:
    """The batches of a rank."""

    def __init__(self, arguments):
        self.batch, self.n_samples = arguments.batch, arguments.batch * arguments.ranks
        self.mine = slice(arguments.rank * self.batch, (arguments.rank + 1) * self.batch)
        self.lengths = arguments.bag_lengths
        self.n_bytes = self.n_samples * (4 + 4 * N_DENSE + 8 * sum(self.lengths))
        # The file stays open, because the launcher may remove it.
        self.file = open(arguments.samples, "rb")

    def read(self, number):
        """Labels, dense features and ids of each table [batch, length] of a step."""
        self.file.seek(number * self.n_bytes)
        data = bytearray(self.file.read(self.n_bytes))
        n_floats = self.n_samples * (1 + N_DENSE)
        floats = torch.frombuffer(data, dtype=torch.float32, count=n_floats)
        numbers = torch.frombuffer(data, dtype=torch.int64, offset=4 * n_floats)
        parts = numbers.split([self.n_samples * length for length in self.lengths])
        ids = [part.reshape(self.n_samples, length)[self.mine].contiguous()
               for part, length in zip(parts, self.lengths)]
        dense = floats[self.n_samples:].reshape(self.n_samples, N_DENSE)
        return floats[self.mine].clone(), dense[self.mine].contiguous(), ids


class Training:
    """The steps of a rank.

    `model` computes logits from dense features and ids, and may be a wrapper of `dlrm`.
    `prepare_ids` turns the ids of Samples into those of the model before the steps are timed.
    `sparse_optimizer` is that of the tables; None if the backward pass updates them.
    """

    def __init__(self, arguments, dlrm, model, sparse_optimizer, prepare_ids=lambda ids: ids):
        self.ranks = arguments.ranks
        self.samples = Samples(arguments)
        self.dlrm, self.model = dlrm, model
        self.optimizers = [torch.optim.SGD(dlrm.get_dense_parameters(), lr=arguments.lr)]
        self.sparse_optimizer = sparse_optimizer
        if sparse_optimizer is not None:
            self.optimizers.append(sparse_optimizer)
        self.prepare_ids = prepare_ids
        self.loss = nn.BCEWithLogitsLoss()

    def step(self, batch, times, predictions):
        labels, dense, ids = batch
        at = [time.perf_counter()]
        logits = self.model(dense, ids)
        loss = self.loss(logits, labels)
        at += [self.dlrm.looked_up_at, time.perf_counter()]
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        at.append(time.perf_counter())
        self.optimizers[0].step()
        at.append(time.perf_counter())
        if self.sparse_optimizer is not None:
            self.sparse_optimizer.step()
        at.append(time.perf_counter())
        times.extend([0.0] + [1000 * (end - begin) for begin, end in zip(at, at[1:])]
                     + [1000 * (at[-1] - at[0])])
        predictions.append(torch.stack([logits.detach(), labels], dim=1).double())

    def read(self, number):
        labels, dense, ids = self.samples.read(number)
        return labels, dense, self.prepare_ids(ids)

    def run(self, first, n_steps, path):
        batches = [self.read(first + i) for i in range(n_steps)]
        times, predictions = array.array("d"), []
        if self.ranks > 1:
            dist.barrier()
        start = time.perf_counter()
        for batch in batches:
            self.step(batch, times, predictions)
        seconds = time.perf_counter() - start
        with open(path, "wb") as file:
            times.tofile(file)
            array.array("d", torch.cat(predictions).flatten().tolist()).tofile(file)
        return seconds


def join(arguments):
    """Joins the ranks, also if this is the only one."""
    dist.init_process_group("gloo", init_method="file://" + arguments.store, rank=arguments.rank,
                            world_size=arguments.ranks)


def skip(reason):
    print("skip %s" % str(reason).split("\n", maxsplit=1)[0], flush=True)
    sys.exit(0)


def serve(arguments, version, make_training):
    """Prints `version`, calls make_training() and serves the requests of the benchmark."""
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(arguments.threads)
    print(version, flush=True)
    try:
        training = make_training()
        print("ready", flush=True)
        for line in sys.stdin:
            first, n_steps, path = line.rstrip("\n").split(" ", 2)
            print("ok %.9f" % training.run(int(first), int(n_steps), path), flush=True)
    except Exception as error:  # the benchmark reports any error
        print("error %s: %s" % (type(error).__name__, str(error).split("\n", maxsplit=1)[0]),
              flush=True)
        os._exit(1)
    # Other ranks may have ended already. The end of a process group reports this as an error.
    sys.stderr.flush()
    os._exit(0)
