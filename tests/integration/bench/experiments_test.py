# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The originals' smaller experiments, with the values of their scripts, and batches that do not
divide evenly."""

import json

import experiments
import junit

# The batch-10 scripts date from a version whose data and model had 100 of everything.
OF_100 = "--data=DummyData100 --model=DummyModelSparse100"

# Name: (flags, batches of each trainer in a pass).
EXPERIMENTS = {
    "ddp_cpu_rpc": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=2 --nserver=1 "
        "--server=AverageParameterServer "
        "--rpc_timeout=30 --epochs=10 --batch_size=10 " + OF_100, [50, 50]),
    "ddp_batch_cpu_rpc": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=2 --nserver=1 "
        "--server=AverageBatchParameterServer "
        "--rpc_timeout=30 --epochs=10 --batch_size=10 " + OF_100, [50, 50]),
    "sweep_1_trainer": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=1 --nserver=1 "
        "--server=AverageParameterServer "
        "--rpc_timeout=120 --epochs=1 --batch_size=1 " + OF_100, [100]),
    "sweep_2_trainers": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=2 --nserver=1 "
        "--server=AverageBatchParameterServer "
        "--rpc_timeout=120 --epochs=1 --batch_size=1 " + OF_100, [50, 50]),
}

# As wide as the data of the last scripts require, but with few rows.
THIN = {"Thin": {"model_class": "DummyModel", "configurations": {
    "num_embeddings": 1024, "embedding_dim": 32, "dense_input_size": 32, "dense_output_size": 1024,
    "dense_layers_count": 1, "sparse": True}}}


class Experiments(experiments.TestCase):

    def test_historic(self):
        self.check_all(EXPERIMENTS)

    def test_103_batches_of_two_trainers(self):
        # 1024 samples by 10: the last batch has 4 samples, and one trainer takes one step more. The
        # original programs hang here.
        self.write("models.json", json.dumps(THIN))
        for hook in ("rpc_hook", "sparse_rpc_hook", "allreduce_hook", "hybrid_hook"):
            with self.subTest(hook=hook):
                figures = self.check("--data=DummyData --model=Thin "
                                     "--model-config-path=models.json --batch-size=10 "
                                     "--epochs=2 --ddp-hook=" + hook, [104, 102])
                # Every step has its rounds, even if a trainer has no data.
                if hook == "rpc_hook":
                    rounds = "server=2/parameter_server_batch_metric,param_index_batch"
                    self.assertEqual(figures[rounds]["n"], 2 * 2 * 52)

    def test_more_trainers_than_batches(self):
        for hook in ("rpc_hook", "sparse_rpc_hook", "allreduce_hook", "hybrid_hook"):
            with self.subTest(hook=hook):
                figures = self.check("--smoke --ntrainer=3 --ddp-hook=" + hook, [1, 1, 0])
                self.assertNotIn("trainer=2/loss", figures)

    def test_a_trainer_without_batches_whose_server_sees_nobody_else(self):
        result = self.run_well("--smoke", "--batch-size=64", "--partition=trainers", "--nserver=2")
        self.assertIn("trainer1 -", result.stdout)


if __name__ == "__main__":
    junit.main()
