# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The originals' full-size experiments that need no GPU, with the values of their scripts."""

import experiments
import junit

LAST_SCRIPTS = ("--preprocess_data=preprocess_dummy_data --create_criterion=cel "
                "--create_ddp_model=basic_ddp_model "
                "--iteration_step=basic_iteration_step --hook_state=BasicHookState --torch_seed=0 "
                "--cuda_seed=0")

EXPERIMENTS = {
    "ddp_gloo_allreduce": (
        "--ddp_hook=allreduce_hook --backend=gloo --ntrainer=2 --nserver=0 --data=DummyData "
        "--model=DummyModelSparse "
        "--rpc_timeout=120 --epochs=1 --batch_size=32 " + LAST_SCRIPTS, [16, 16]),
    "ddp_gloo_nccl_allreduce": (
        "--ddp_hook=hybrid_hook --backend=multi --ntrainer=2 --nserver=0 --data=DummyData "
        "--model=DummyModelSparse "
        "--rpc_timeout=120 --epochs=1 --batch_size=32 " + LAST_SCRIPTS, [16, 16]),
    # The data of these scripts with the batch size of the older ones: 103 batches, which two
    # trainers cannot share evenly.
    "ddp_cpu_rpc, 1024 samples": (
        "--ddp_hook=rpc_hook --backend=gloo --ntrainer=2 --nserver=1 "
        "--server=AverageParameterServer "
        "--rpc_timeout=30 --epochs=1 --batch_size=10 --data=DummyData --model=DummyModelSparse",
        [52, 51]),
}


class FullSize(experiments.TestCase):

    def test_historic(self):
        self.check_all(EXPERIMENTS)


if __name__ == "__main__":
    junit.main()
