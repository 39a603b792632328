#!/usr/bin/env python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the bits of PyTorch's optimizers, with which rows of tables are compared bit for bit.

    ATEN_CPU_CAPABILITY=default python3 tests/oracle/make_row_bits.py > tests/oracle/row_bits.txt

Needs PyTorch 2.14 (`pip install torch==2.14.1`), eager on the CPU with foreach=False. With other
capabilities PyTorch fuses products with sums, and its bits depend on the processor. Its square root
comes from a library that does not round correctly on every processor, so sqrt() is replaced by one
that does. The format is that of make_vectors.py: bits/CASE/initial, /gradients [steps, rows, dim],
/factors, and the rows after some of the steps as /STEP.
"""

import os
import sys

import torch

STEPS = 40
SHAPE = (3, 5)

torch.Tensor.sqrt = lambda self: torch.pow(self.double(), 0.5).to(self.dtype)


def emit(name, tensor):
    print("tensor bits/%s f32" % name, *tensor.shape)
    print(" ".join("%.9g" % value for value in tensor.detach().reshape(-1).tolist()))


def make(case, optimizer_class, factors, **options):
    """`factors`: the numbers of the optimizer as a test passes them."""
    initial = torch.randn(SHAPE)
    gradients = torch.randn((STEPS, *SHAPE)) * torch.logspace(-4, 2, STEPS).reshape(-1, 1, 1)
    value = initial.clone().requires_grad_()
    optimizer = optimizer_class([value], foreach=False, **options)
    emit(case + "/factors", torch.tensor(factors, dtype=torch.float64))
    emit(case + "/initial", initial)
    emit(case + "/gradients", gradients)
    for number, gradient in enumerate(gradients, 1):
        value.grad = gradient.clone()
        optimizer.step()
        if number in (1, 2, 10, STEPS):
            emit("%s/%d" % (case, number), value)


def main():
    if torch.backends.cpu.get_cpu_capability() != "DEFAULT":
        sys.exit("%s: set ATEN_CPU_CAPABILITY=default" % os.path.basename(sys.argv[0]))
    torch.set_num_threads(1)
    torch.manual_seed(271)
    print("# Made by make_row_bits.py with PyTorch %s." % torch.__version__)
    make("adamw", torch.optim.AdamW, [0.01, 0.1, 1e-8, 0.9, 0.999], lr=0.01, weight_decay=0.1)
    make("adamw_plain", torch.optim.AdamW, [0.1, 0, 0.001, 0.3, 0.99], lr=0.1, weight_decay=0,
         betas=(0.3, 0.99), eps=0.001)
    make("nesterov", torch.optim.SGD, [0.05, 0.9, 0], lr=0.05, momentum=0.9, nesterov=True)
    make("nesterov_decay", torch.optim.SGD, [0.05, 0.5, 0.01], lr=0.05, momentum=0.5, nesterov=True,
         weight_decay=0.01)
    return 0


if __name__ == "__main__":
    sys.exit(main())
