# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The originals' experiments that need no GPU, with the values of their scripts; and batches that do not divide."""

import json
import unittest

import junit
import launcher
import report

# What all scripts said. The data and the model of the batch-10 ones had 100 of everything then.
COMMON = "--master_addr=localhost --trainer=DdpTrainer --filestore=/tmp/tmpn_k_8so02"
LAST_SCRIPTS = ("--preprocess_data=preprocess_dummy_data --create_criterion=cel --create_ddp_model=basic_ddp_model "
                "--iteration_step=basic_iteration_step --hook_state=BasicHookState --torch_seed=0 --cuda_seed=0")
OF_100 = "--data=DummyData100 --model=DummyModelSparse100"

# Name: (flags, batches of each trainer in a pass).
EXPERIMENTS = {
    "ddp_gloo_allreduce": (
        "--ddp_hook=allreduce_hook --backend=gloo --ntrainer=2 --nserver=0 --data=DummyData --model=DummyModelSparse "
        "--rpc_timeout=120 --epochs=1 --batch_size=32 " + LAST_SCRIPTS, [16, 16]),
    "ddp_gloo_nccl_allreduce": (
        "--ddp_hook=hybrid_hook --backend=multi --ntrainer=2 --nserver=0 --data=DummyData --model=DummyModelSparse "
        "--rpc_timeout=120 --epochs=1 --batch_size=32 " + LAST_SCRIPTS, [16, 16]),
    "ddp_cpu_rpc": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=2 --nserver=1 --server=AverageParameterServer "
        "--rpc_timeout=30 --epochs=10 --batch_size=10 " + OF_100, [50, 50]),
    "ddp_batch_cpu_rpc": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=2 --nserver=1 --server=AverageBatchParameterServer "
        "--rpc_timeout=30 --epochs=10 --batch_size=10 " + OF_100, [50, 50]),
    # The data of the last scripts with the batches of the others: 103, which do not divide.
    "ddp_cpu_rpc, 1024 samples": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=2 --nserver=1 --server=AverageParameterServer "
        "--rpc_timeout=30 --epochs=1 --batch_size=10 --data=DummyData --model=DummyModelSparse", [52, 51]),
    "sweep_1_trainer": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=1 --nserver=1 --server=AverageParameterServer "
        "--rpc_timeout=120 --epochs=1 --batch_size=1 " + OF_100, [100]),
    "sweep_2_trainers": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=2 --nserver=1 --server=AverageBatchParameterServer "
        "--rpc_timeout=120 --epochs=1 --batch_size=1 " + OF_100, [50, 50]),
}

# As wide as the data of the last scripts needs it, and thin.
THIN = {"Thin": {"model_class": "DummyModel", "configurations": {
    "num_embeddings": 1024, "embedding_dim": 32, "dense_input_size": 32, "dense_output_size": 1024,
    "dense_layers_count": 1, "sparse": True}}}


class Experiments(launcher.TestCase):

    def check(self, flags, batches):
        output = self.run_to_json(*flags.split())
        figures = report.figures(output)
        for rank, n in enumerate(batches):
            forward, step = ("trainer=%d/%s" % (rank, name) for name in report.TRAINER_NAMES[:0:-1])
            self.assertEqual(figures[forward]["n"] if forward in figures else 0, n)
            self.assertEqual(figures[step]["n"], max(batches))  # without data it takes part in the others' rounds
        self.assertEqual(len(set(report.digests(output))), 1)
        return figures

    def test_historic(self):
        for name, (flags, batches) in EXPERIMENTS.items():
            with self.subTest(name=name):
                self.check(COMMON + " " + flags, batches)

    def test_103_batches_of_two_trainers(self):
        # 1024 samples by 10: the last batch has 4 and one trainer does a step more. The originals hang here.
        self.write("models.json", json.dumps(THIN))
        for hook in ("rpc_hook", "sparse_rpc_hook", "allreduce_hook", "hybrid_hook"):
            with self.subTest(hook=hook):
                figures = self.check("--data=DummyData --model=Thin --model-config-path=models.json --batch-size=10 "
                                     "--epochs=2 --ddp-hook=" + hook, [104, 102])
                if hook == "rpc_hook":  # every step has its rounds, whoever has data
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
