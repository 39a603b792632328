#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""FBGEMM's table batched embeddings (TBE) on the CPU as a peer of //bench:lookup.

Command line, input and output: see embedding_work.py. Optimizers: "rowwise-adagrad" and "adagrad",
fused with the backward pass. TBE has no Adam on the CPU.
"""

import sys

import fbgemm_library

fbgemm_library.find_folder("fbgemm_gpu")
if __name__ == "__main__":
    fbgemm_library.preload()

# The imports below load libc10.so.
# pylint: disable=wrong-import-position
import embedding_work
import torch

try:
    from fbgemm_gpu.split_embedding_configs import EmbOptimType
    from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
    from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
        ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen)
except (ImportError, OSError) as failure:
    print("skip %s: %s" % (sys.executable, str(failure).splitlines()[0]), flush=True)
    sys.exit(0)

OPTIMIZERS = {
    "rowwise-adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
}


def make_tbe(arguments, optimizer):
    place = (EmbeddingLocation.HOST, ComputeDevice.CPU)
    tbe = SplitTableBatchedEmbeddingBagsCodegen([(arguments.rows, arguments.dim) + place],
                                                optimizer=optimizer,
                                                learning_rate=embedding_work.LEARNING_RATE,
                                                eps=embedding_work.EPSILON,
                                                pooling_mode=PoolingMode.SUM)
    n_indices = arguments.bags * arguments.bag_length
    offsets = torch.arange(0, n_indices + 1, arguments.bag_length)
    return tbe, offsets, tbe.split_embedding_weights()[0]


def make_lookup(arguments, _batches):
    tbe, offsets, table = make_tbe(arguments, EmbOptimType.EXACT_SGD)
    table.copy_(embedding_work.make_table(arguments.rows, arguments.dim))
    return lambda ids: tbe(ids, offsets)


def make_training(arguments, batches, name):
    tbe, offsets, table = make_tbe(arguments, OPTIMIZERS[name])
    table.zero_()

    def train(ids):
        output = tbe(ids, offsets)
        output.backward(batches.gradients)
        return output

    return train, table


if __name__ == "__main__":
    VERSION = "fbgemm %s, torch %s, %s" % (fbgemm_library.find_version(), torch.__version__,
                                           fbgemm_library.find_instruction_set())
    embedding_work.serve(VERSION, make_lookup, make_training)
