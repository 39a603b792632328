#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the vectors that tests of tests/runtime and tests/conformance compare with: what PyTorch computes.

    /usr/bin/python3 tests/oracle/make_vectors.py > tests/oracle/vectors.txt

Needs Debian's python3-torch (1.13). Deterministic: one thread, fixed seeds. The file is text:

    # comment
    tensor NAME TYPE DIM DIM ...
    VALUE VALUE ...

with one line of values, row-major; TYPE is f32 or i64, floats in 9 digits, which give back the same float. Names are
CASE/WHAT. A model's parameters are named as in model.named_parameters(), gradients as NAME.grad; of sparse ones
NAME.grad.indices and NAME.grad.values, coalesced.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 3
TRAINERS = 2
ROW_STEPS = 100  # of the optimizers of rows


def emit(name, tensor):
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.int64:
        kind, form = "i64", "%d"
    else:
        assert tensor.dtype == torch.float32, (name, tensor.dtype)
        kind, form = "f32", "%.9g"
    print("tensor", name, kind, *tensor.shape)
    print(" ".join(form % value for value in tensor.reshape(-1).tolist()))


def emit_gradient(name, gradient):
    if gradient.is_sparse:
        gradient = gradient.coalesce()
        emit(name + ".grad.indices", gradient.indices()[0])
        emit(name + ".grad.values", gradient.values())
    else:
        emit(name + ".grad", gradient)


class BagAndLinears(nn.Module):
    """Mean of embedding rows, linear layers in a row, softmax."""

    def __init__(self, rows, dim, outputs, n_layers, sparse):
        super().__init__()
        self.embedding = nn.EmbeddingBag(rows, dim, sparse=sparse)
        self.dense = nn.Sequential(*[nn.Linear(dim, outputs) for _ in range(n_layers)])

    def forward(self, ids):
        return F.softmax(self.dense(self.embedding(ids)), dim=1)


def draw_batch(rows, outputs, batch, length):
    return torch.randint(rows, (batch, length)), torch.randint(outputs, (batch,))


def backward(model, batch):
    model.zero_grad(set_to_none=True)
    output = model(batch[0])
    loss = nn.CrossEntropyLoss()(output, batch[1])
    loss.backward()
    return output, loss


def make_model(case, rows, dim, outputs, n_layers, sparse, batch, length, lr):
    """Forward, loss, every gradient of the first step; parameters after the last."""
    model = BagAndLinears(rows, dim, outputs, n_layers, sparse)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    emit(case + "/lr", torch.tensor([lr]))
    for name, parameter in model.named_parameters():
        emit("%s/initial/%s" % (case, name), parameter)
    for step in range(STEPS):
        data = draw_batch(rows, outputs, batch, length)
        emit("%s/%d/input" % (case, step), data[0])
        emit("%s/%d/target" % (case, step), data[1])
        output, loss = backward(model, data)
        emit("%s/%d/loss" % (case, step), loss.reshape(1))
        if step == 0:
            emit(case + "/0/output", output)
            for name, parameter in model.named_parameters():
                emit_gradient("%s/0/%s" % (case, name), parameter.grad)
        optimizer.step()
    for name, parameter in model.named_parameters():
        emit("%s/final/%s" % (case, name), parameter)


def make_trainers(case, rows, dim, outputs, n_layers, batch, length, lr):
    """Each step with the mean of the gradients that the trainers computed from the same parameters."""
    model = BagAndLinears(rows, dim, outputs, n_layers, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    emit(case + "/lr", torch.tensor([lr]))
    for name, parameter in model.named_parameters():
        emit("%s/initial/%s" % (case, name), parameter)
    for step in range(STEPS):
        gradients = []
        for trainer in range(TRAINERS):
            data = draw_batch(rows, outputs, batch, length)
            emit("%s/%d/%d/input" % (case, step, trainer), data[0])
            emit("%s/%d/%d/target" % (case, step, trainer), data[1])
            backward(model, data)
            gradients.append([parameter.grad for parameter in model.parameters()])
        for (name, parameter), *ours in zip(model.named_parameters(), *gradients):
            parameter.grad = sum(ours[1:], ours[0]) / TRAINERS
            if step == 0:
                emit_gradient("%s/0/%s" % (case, name), parameter.grad)
        optimizer.step()
    for name, parameter in model.named_parameters():
        emit("%s/final/%s" % (case, name), parameter)


def make_function(case, function, *inputs):
    """A function of floats: its output and the gradient of its first input for a random gradient of the output."""
    for i, tensor in enumerate(inputs):
        emit("%s/input%d" % (case, i), tensor)
    first = inputs[0].clone().requires_grad_()
    output = function(first, *inputs[1:])
    upstream = torch.randn(output.shape)
    output.backward(upstream)
    emit(case + "/output", output.reshape(-1) if output.dim() == 0 else output)
    emit(case + "/output.grad", upstream.reshape(-1) if output.dim() == 0 else upstream)
    emit(case + "/input0.grad", first.grad)


def make_loss(case, function, value, target):
    emit(case + "/input", value)
    emit(case + "/target", target)
    value = value.clone().requires_grad_()
    loss = function(value, target)
    loss.backward()
    emit(case + "/loss", loss.reshape(1))
    emit(case + "/input.grad", value.grad)


def make_bags(case, mode, weighted):
    """Bags of different sizes, one of them empty."""
    rows, dim = 11, 6
    indices = torch.tensor([3, 3, 10, 0, 7, 3, 5, 5, 5, 9, 0, 1, 3])
    offsets = torch.tensor([0, 5, 5, 6, 10])
    table = torch.randn(rows, dim).requires_grad_()
    weights = torch.rand(len(indices)) if weighted else None
    output = F.embedding_bag(indices, table, offsets, mode=mode, per_sample_weights=weights)
    upstream = torch.randn(output.shape)
    output.backward(upstream)
    emit(case + "/indices", indices)
    emit(case + "/offsets", offsets)
    emit(case + "/table", table)
    if weighted:
        emit(case + "/weights", weights)
    emit(case + "/output", output)
    emit(case + "/output.grad", upstream)
    emit(case + "/table.grad", table.grad)


def make_linear(case, n_in, n_out, batch):
    layer = nn.Linear(n_in, n_out)
    value = torch.randn(batch, n_in).requires_grad_()
    output = layer(value)
    upstream = torch.randn(output.shape)
    output.backward(upstream)
    emit(case + "/input", value)
    emit(case + "/weight", layer.weight)
    emit(case + "/bias", layer.bias)
    emit(case + "/output", output)
    emit(case + "/output.grad", upstream)
    emit(case + "/input.grad", value.grad)
    emit(case + "/weight.grad", layer.weight.grad)
    emit(case + "/bias.grad", layer.bias.grad)


def make_sgd(case, momentum, weight_decay):
    parameter = torch.randn(5, 7).requires_grad_()
    optimizer = torch.optim.SGD([parameter], lr=0.05, momentum=momentum, weight_decay=weight_decay)
    emit(case + "/factors", torch.tensor([0.05, momentum, weight_decay]))
    emit(case + "/initial", parameter)
    for step in range(STEPS):
        parameter.grad = torch.randn(parameter.shape)
        emit("%s/%d/grad" % (case, step), parameter.grad)
        optimizer.step()
        emit("%s/%d/value" % (case, step), parameter)


def draw_row_gradients(rows, dim, n):
    """Some steps of n rows each, low ids more often, the last never. Eighths, which are short in the file."""
    indices = (torch.rand(ROW_STEPS, n).pow(2) * (rows - 1)).long()
    gradients = (torch.randn(ROW_STEPS, n, dim) * 8).round() / 8
    initial = (torch.randn(rows, dim) * 8).round() / 8
    emit("optimizer/indices", indices)
    emit("optimizer/gradients", gradients)
    emit("optimizer/initial", initial)
    return initial, [torch.sparse_coo_tensor(i.unsqueeze(0), g, (rows, dim)).coalesce()
                     for i, g in zip(indices, gradients)]


def emit_row_steps(case, factors, steps):
    """`factors`: learning rate, then what the optimizer has; `steps` yields the values after each step."""
    emit("optimizer/%s/factors" % case, torch.tensor(factors, dtype=torch.float64).float())
    for number, value in enumerate(steps, 1):
        if number in (1, 10, ROW_STEPS):
            emit("optimizer/%s/%d" % (case, number), value.float())


def whole_steps(data, optimizer_class, dense=False, **options):
    """The table as one parameter, with sparse gradients or with those filled up with zeros."""
    initial, gradients = data
    value = initial.clone().requires_grad_()
    optimizer = optimizer_class([value], **options)
    for gradient in gradients:
        value.grad = gradient.to_dense() if dense else gradient
        optimizer.step()
        yield value.detach()


def row_steps(data, optimizer_class, **options):
    """Each row as a parameter of its own, which has a gradient or takes no part in the step."""
    initial, gradients = data
    rows = [row.clone().requires_grad_() for row in initial]
    optimizer = optimizer_class(rows, **options)
    for gradient in gradients:
        optimizer.zero_grad(set_to_none=True)
        for i, row_gradient in zip(gradient.indices()[0], gradient.values()):
            rows[i].grad = row_gradient
        optimizer.step()
        yield torch.stack([row.detach() for row in rows])


def rowwise_adagrad_steps(data, lr, weight_decay=0, eps=1e-10):
    """From the formula, in float64."""
    value, gradients = data[0].double(), data[1]
    accumulators = torch.zeros(len(value), dtype=torch.float64)
    for gradient in gradients:
        for i, g in zip(gradient.indices()[0], gradient.values().double()):
            g = g + weight_decay * value[i]
            accumulators[i] += (g * g).mean()
            value[i] -= lr * g / (accumulators[i].sqrt() + eps)
        yield value


def ftrl_steps(data, lr, weight_decay=0, l1=0, l2=0, beta=1):
    """Algorithm 1 of the paper (Ad Click Prediction, KDD 2013), in float64: weights are computed from z and n whenever
    they are needed. At n = 0, z is such that they are the initial values."""
    initial, gradients = data[0].double(), data[1]
    n = torch.zeros_like(initial)
    z = -(initial * (beta / lr + l2) + initial.sign() * l1)

    def weights():
        w = -(z - z.sign() * l1) / ((beta + n.sqrt()) / lr + l2)
        return torch.where(z.abs() <= l1, torch.zeros_like(w), w)

    for gradient in gradients:
        for i, g in zip(gradient.indices()[0], gradient.values().double()):
            w = weights()[i]
            g = g + weight_decay * w
            sigma = ((n[i] + g * g).sqrt() - n[i].sqrt()) / lr
            z[i] += g - sigma * w
            n[i] += g * g
        yield weights()


def make_row_optimizers():
    data = draw_row_gradients(rows=6, dim=3, n=4)
    optim = torch.optim
    for case, momentum, decay in (("sgd", 0, 0), ("sgd_momentum", 0.9, 0), ("sgd_decay", 0, 0.01),
                                  ("sgd_momentum_decay", 0.9, 0.01)):
        emit_row_steps(case, [0.05, momentum, decay],
                       row_steps(data, optim.SGD, lr=0.05, momentum=momentum, weight_decay=decay))
    emit_row_steps("adagrad", [0.1, 0, 1e-10], whole_steps(data, optim.Adagrad, lr=0.1))
    emit_row_steps("adagrad_decay", [0.1, 0.01, 0.001],
                   row_steps(data, optim.Adagrad, lr=0.1, weight_decay=0.01, eps=0.001))
    emit_row_steps("rowwise_adagrad", [0.1, 0, 1e-10], rowwise_adagrad_steps(data, 0.1))
    emit_row_steps("rowwise_adagrad_decay", [0.1, 0.01, 0.001],
                   rowwise_adagrad_steps(data, 0.1, weight_decay=0.01, eps=0.001))
    emit_row_steps("adam_sparse", [0.01, 0, 1e-8, 0.9, 0.999],
                   whole_steps(data, optim.SparseAdam, lr=0.01))
    emit_row_steps("adam_dense", [0.01, 0, 1e-8, 0.9, 0.999],
                   whole_steps(data, optim.Adam, dense=True, lr=0.01))
    emit_row_steps("adam_dense_decay", [0.01, 0.01, 0.001, 0.8, 0.99],
                   whole_steps(data, optim.Adam, dense=True, lr=0.01, weight_decay=0.01, eps=0.001,
                               betas=(0.8, 0.99)))
    emit_row_steps("ftrl", [0.1, 0, 0, 0, 1], ftrl_steps(data, 0.1))
    emit_row_steps("ftrl_l1_l2", [0.1, 0, 2, 0.5, 1], ftrl_steps(data, 0.1, l1=2, l2=0.5))
    emit_row_steps("ftrl_decay", [0.1, 0.01, 0.25, 0, 0.5],
                   ftrl_steps(data, 0.1, weight_decay=0.01, l1=0.25, beta=0.5))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1729)
    print("# Made by make_vectors.py with PyTorch %s." % torch.__version__)
    make_model("sparse_model", 20, 8, 8, 3, True, 5, 9, 0.5)
    make_model("dense_model", 20, 8, 8, 3, False, 5, 9, 0.5)
    make_model("one_layer_model", 16, 6, 10, 1, True, 3, 4, 0.5)
    make_trainers("trainers", 20, 8, 8, 2, 4, 6, 0.5)
    make_function("relu", F.relu, torch.randn(3, 7))
    make_function("softmax", lambda x: F.softmax(x, dim=1), 3 * torch.randn(4, 9))
    make_loss("cross_entropy", nn.CrossEntropyLoss(), 3 * torch.randn(5, 8), torch.randint(8, (5,)))
    value, target = torch.randn(6, 5), torch.randn(6, 5)
    target[2] = value[2]
    make_loss("l1", nn.L1Loss(), value, target)
    for mode in ("sum", "mean", "max"):
        make_bags("bags_" + mode, mode, False)
    make_bags("bags_weighted", "sum", True)
    make_linear("linear", 7, 5, 4)
    make_sgd("sgd_plain", 0.0, 0.0)
    make_sgd("sgd_momentum", 0.9, 0.0)
    make_sgd("sgd_decay", 0.0, 0.01)
    make_sgd("sgd_momentum_decay", 0.9, 0.01)
    make_row_optimizers()
    return 0


if __name__ == "__main__":
    sys.exit(main())
