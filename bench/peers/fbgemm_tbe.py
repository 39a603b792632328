#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""FBGEMM's table batched embeddings (TBE) on the CPU as a peer of //bench:lookup.

Command line, input and output: see embedding_work.py. Optimizers: "rowwise-adagrad" and "adagrad",
fused with the backward pass. TBE has no Adam on the CPU.

FBGEMM chooses its kernels by the copy of cpuinfo in libc10.so, which the wheels never initialise;
it then runs scalar code without a message. If libc10.so is loaded before everything else, its copy
is used by PyTorch, too, which initialises it. The script therefore runs itself again with
LD_PRELOAD. The first line of its output names the instruction set that FBGEMM uses.
"""

import ctypes
import importlib.metadata
import importlib.util
import os
import sys

# fbgemm::inst_set_t
INSTRUCTION_SETS = {
    0: "scalar code",
    1: "AVX2",
    2: "AVX-512",
    3: "AVX-512 with 256-bit registers",
    4: "AVX-512 VNNI",
    5: "AVX-512 VNNI with 256-bit registers",
    6: "SVE",
}


def find_folder(module):
    """The folder of a package, which is not imported; ends the script if there is none."""
    found = importlib.util.find_spec(module)
    if found is None:
        print("skip %s has no %s" % (sys.executable, module), flush=True)
        sys.exit(0)
    return os.path.dirname(found.origin)


def preload():
    """Runs this script again if libc10.so has not been loaded first."""
    library = os.path.join(find_folder("torch"), "lib", "libc10.so")
    loaded = os.environ.get("LD_PRELOAD", "").split(":")
    if library not in loaded and os.path.exists(library):
        os.environ["LD_PRELOAD"] = ":".join([library] + [path for path in loaded if path])
        os.execv(sys.executable, [sys.executable] + sys.argv)


FOLDER = find_folder("fbgemm_gpu")
if __name__ == "__main__":
    preload()

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


def find_instruction_set():
    library = ctypes.CDLL(os.path.join(FOLDER, "fbgemm.so"))
    number = library._ZN6fbgemm20fbgemmInstructionSetEv()
    return INSTRUCTION_SETS.get(number, "instruction set %d" % number)


def find_version():
    for name in ("fbgemm-gpu-cpu", "fbgemm-gpu"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return "of an unknown version"


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
    embedding_work.serve(
        "fbgemm %s, torch %s, %s" % (find_version(), torch.__version__, find_instruction_set()),
        make_lookup, make_training)
