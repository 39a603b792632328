#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A DLRM in one process as a peer of //bench:dlrm: sparse EmbeddingBags and dense layers.

    pytorch_dlrm.py --samples=FILE --batch=N --dim=N --rows=N,N,... --bag-lengths=N,N,...
                    --optimizer=NAME --lr=X --threads=N --seed=N

FILE contains the batches one after the other: labels and 13 dense features of each sample
(float32), and the ids of each table (int64). The script prints "torch VERSION", or "skip REASON" if
there is no PyTorch. For each line "FIRST STEPS FILE" it trains the batches from number FIRST on,
writes its measurements to FILE (bench/dlrm/pass_file.h) and replies "ok SECONDS". It ends at the
end of its standard input.

The layers are those of bench/dlrm/dense_part.c. The optimizer of the dense layers is SGD. PyTorch
has no row-wise Adagrad; Adagrad takes its place.
"""

import argparse
import array
import math
import sys
import time

try:
    import torch
    from torch import nn
except ImportError as missing:
    print("skip %s: %s" % (sys.executable, missing), flush=True)
    sys.exit(0)

N_DENSE = 13
SPARSE_OPTIMIZERS = {
    "SGD": torch.optim.SGD,
    "ADAGRAD": torch.optim.Adagrad,
    "ROWWISE_ADAGRAD": torch.optim.Adagrad,
    "ADAM": torch.optim.SparseAdam,
}


def make_layers(widths, ends_linear):
    layers = []
    for n_in, n_out in zip(widths, widths[1:]):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1] if ends_linear else layers)


class Dlrm(nn.Module):
    def __init__(self, rows, dim):
        super().__init__()
        self.tables = nn.ModuleList()
        for n_rows in rows:
            table = nn.EmbeddingBag(n_rows, dim, mode="sum", sparse=True)
            nn.init.uniform_(table.weight, -1 / math.sqrt(n_rows), 1 / math.sqrt(n_rows))
            self.tables.append(table)
        n_vectors = len(rows) + 1
        self.pairs = torch.tril_indices(n_vectors, n_vectors, offset=-1)
        self.bottom = make_layers([N_DENSE, 512, 256, dim], False)
        self.top = make_layers([dim + self.pairs.shape[1], 512, 256, 1], True)

    def look_up(self, ids):
        return [table(each) for table, each in zip(self.tables, ids)]

    def predict(self, dense, vectors):
        bottom = self.bottom(dense)
        features = torch.stack([bottom] + vectors, dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        pairs = products[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([bottom, pairs], dim=1)).squeeze(1)


class Training:
    def __init__(self, arguments):
        torch.manual_seed(arguments.seed)
        torch.set_num_threads(arguments.threads)
        self.batch = arguments.batch
        self.lengths = [int(length) for length in arguments.bag_lengths.split(",")]
        self.n_bytes = self.batch * (4 + 4 * N_DENSE + 8 * sum(self.lengths))
        # The process keeps the file open, because the launcher may remove it.
        self.file = open(arguments.samples, "rb")
        self.model = Dlrm([int(rows) for rows in arguments.rows.split(",")], arguments.dim)
        dense = list(self.model.bottom.parameters()) + list(self.model.top.parameters())
        self.dense_optimizer = torch.optim.SGD(dense, lr=arguments.lr)
        self.sparse_optimizer = SPARSE_OPTIMIZERS[arguments.optimizer](
            list(self.model.tables.parameters()), lr=arguments.lr)
        self.loss = nn.BCEWithLogitsLoss()

    def read(self, number):
        """Labels, dense features and ids of a batch."""
        self.file.seek(number * self.n_bytes)
        data = bytearray(self.file.read(self.n_bytes))
        n_floats = self.batch * (1 + N_DENSE)
        floats = torch.frombuffer(data, dtype=torch.float32, count=n_floats)
        numbers = torch.frombuffer(data, dtype=torch.int64, offset=4 * n_floats)
        ids = [each.reshape(self.batch, length) for each, length in
               zip(numbers.split([self.batch * length for length in self.lengths]), self.lengths)]
        return floats[:self.batch], floats[self.batch:].reshape(self.batch, N_DENSE), ids

    def step(self, batch, times, predictions):
        labels, dense, ids = batch
        at = [time.perf_counter()]
        vectors = self.model.look_up(ids)
        at.append(time.perf_counter())
        logits = self.model.predict(dense, vectors)
        loss = self.loss(logits, labels)
        at.append(time.perf_counter())
        self.dense_optimizer.zero_grad()
        self.sparse_optimizer.zero_grad()
        loss.backward()
        at.append(time.perf_counter())
        self.dense_optimizer.step()
        at.append(time.perf_counter())
        self.sparse_optimizer.step()
        at.append(time.perf_counter())
        times.extend([0.0] + [1000 * (end - begin) for begin, end in zip(at, at[1:])]
                     + [1000 * (at[-1] - at[0])])
        predictions.append(torch.stack([logits.detach(), labels], dim=1).double())

    def run(self, first, n_steps, path):
        batches = [self.read(first + i) for i in range(n_steps)]
        times, predictions = array.array("d"), []
        start = time.perf_counter()
        for batch in batches:
            self.step(batch, times, predictions)
        seconds = time.perf_counter() - start
        with open(path, "wb") as file:
            times.tofile(file)
            array.array("d", torch.cat(predictions).flatten().tolist()).tofile(file)
        return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("batch", "dim", "threads", "seed"):
        parser.add_argument("--" + name, type=int, required=True)
    for name in ("samples", "rows", "bag-lengths"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--optimizer", choices=sorted(SPARSE_OPTIMIZERS), required=True)
    parser.add_argument("--lr", type=float, required=True)
    training = Training(parser.parse_args())
    print("torch " + torch.__version__, flush=True)
    for line in sys.stdin:
        first, n_steps, path = line.rstrip("\n").split(" ", 2)
        print("ok %.9f" % training.run(int(first), int(n_steps), path), flush=True)


if __name__ == "__main__":
    main()
