#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A DLRM on TorchRec as a peer of //bench:dlrm. dlrm_training.py describes the command line.

FBGEMM's CPU kernels look up the tables, and update them in the backward pass. One rank uses a
FusedEmbeddingBagCollection. Several ranks use DistributedModelParallel: the planner distributes
whole tables over the ranks, bags and gradients travel over Gloo, and the dense layers are under
DistributedDataParallel. (Other plans are slower on the CPU. Data-parallel tables have dense
gradients.)

FBGEMM has no Adam on the CPU.
"""

import importlib.metadata
import logging
import sys

import fbgemm_library

if __name__ == "__main__":
    fbgemm_library.preload()

logging.disable(logging.WARNING)

try:
    import dlrm_training
    import torch
    import torch.distributed as dist
    import torchrec
    from torch.distributed.optim import _apply_optimizer_in_backward as apply_in_backward
    from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
    from torchrec.distributed.model_parallel import DistributedModelParallel
    from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
    from torchrec.distributed.planner.types import ParameterConstraints
    from torchrec.modules.fused_embedding_modules import FusedEmbeddingBagCollection
    from torchrec.optim.rowwise_adagrad import RowWiseAdagrad
except Exception as missing:  # incompatible versions fail in many ways
    print("skip %s: %s" % (sys.executable, str(missing).split("\n", maxsplit=1)[0]), flush=True)
    sys.exit(0)

ROW_MULTIPLE = 4  # in floats; --dim must be a multiple

# The epsilon of ThriftPS and PyTorch.
SPARSE_OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {}),
    "ADAGRAD": (torch.optim.Adagrad, {"eps": 1e-10}),
    "ROWWISE_ADAGRAD": (RowWiseAdagrad, {"eps": 1e-10}),
}


def describe():
    return "torch %s, TorchRec %s, FBGEMM %s, %s" % (
        torch.__version__, importlib.metadata.version("torchrec"), fbgemm_library.find_version(),
        fbgemm_library.find_instruction_set())


def name_features(n_tables):
    return ["ids%d" % t for t in range(n_tables)]


def make_configs(arguments):
    return [torchrec.EmbeddingBagConfig(name="table%d" % t, embedding_dim=arguments.dim,
                                        num_embeddings=n_rows, feature_names=["ids%d" % t])
            for t, n_rows in enumerate(arguments.rows)]


class Dlrm(dlrm_training.Dlrm):
    def __init__(self, arguments, tables):
        super().__init__(len(arguments.rows), arguments.dim)
        self.tables = tables
        self.keys = name_features(len(arguments.rows))

    def look_up(self, ids):
        values, lengths, n_samples = ids
        return self.tables(torchrec.KeyedJaggedTensor(self.keys, values, lengths=lengths,
                                                      stride=n_samples))

    def finish_lookup(self, vectors):
        if vectors.keys() == self.keys:
            return [vectors.values()]
        return [vectors[key] for key in self.keys]  # sharded tables may be in another order


class Ids:
    """The ids of all tables as those of a KeyedJaggedTensor."""

    def __init__(self, arguments):
        self.n_samples = arguments.batch
        self.lengths = torch.tensor(arguments.bag_lengths, dtype=torch.int32).repeat_interleave(
            arguments.batch)

    def prepare(self, ids):
        return torch.cat([each.flatten() for each in ids]), self.lengths, self.n_samples


def make_alone(arguments, optimizer, settings):
    dlrm = Dlrm(arguments, FusedEmbeddingBagCollection(make_configs(arguments), optimizer, settings,
                                                       device=torch.device("cpu")))
    return dlrm, dlrm


def make_plan(arguments, model, sharder):
    constraints = {
        "table%d" % t: ParameterConstraints(sharding_types=["table_wise"],
                                            compute_kernels=["fused"],
                                            pooling_factors=[float(length)])
        for t, length in enumerate(arguments.bag_lengths)
    }
    topology = Topology(world_size=arguments.ranks, local_world_size=arguments.ranks,
                        compute_device="cpu")
    planner = EmbeddingShardingPlanner(topology=topology, batch_size=arguments.batch,
                                       constraints=constraints)
    return planner.collective_plan(model, [sharder], dist.group.WORLD)


def make_parallel(arguments, optimizer, settings):
    dlrm_training.join(arguments)
    tables = torchrec.EmbeddingBagCollection(make_configs(arguments), device=torch.device("meta"))
    apply_in_backward(optimizer, tables.parameters(), settings)
    dlrm = Dlrm(arguments, tables)
    sharder = EmbeddingBagCollectionSharder()
    model = DistributedModelParallel(dlrm, device=torch.device("cpu"), sharders=[sharder],
                                     plan=make_plan(arguments, dlrm, sharder))
    return dlrm, model


def make_training(arguments):
    optimizer, settings = SPARSE_OPTIMIZERS[arguments.optimizer]
    make = make_alone if arguments.ranks == 1 else make_parallel
    dlrm, model = make(arguments, optimizer, dict(settings, lr=arguments.lr))
    return dlrm_training.Training(arguments, dlrm, model, None, Ids(arguments).prepare)


def main():
    arguments = dlrm_training.parse_arguments(__doc__)
    if arguments.optimizer not in SPARSE_OPTIMIZERS:
        dlrm_training.skip("FBGEMM has no Adam on the CPU")
    if arguments.dim % ROW_MULTIPLE != 0:
        dlrm_training.skip("FBGEMM needs rows of a multiple of 4 floats")
    dlrm_training.serve(arguments, describe(), lambda: make_training(arguments))


if __name__ == "__main__":
    main()
