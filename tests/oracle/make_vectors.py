#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Writes PyTorch's results as vectors, with which tests of tests/runtime and tests/conformance are
compared.

    /usr/bin/python3 tests/oracle/make_vectors.py > tests/oracle/vectors.txt

Needs Debian's python3-torch (1.13). Deterministic: one thread, fixed seeds. The file is text:

    # comment
    tensor NAME TYPE DIM DIM ...
    VALUE VALUE ...

with one line of values, row-major; TYPE is f32 or i64. Floats have 9 digits, which are enough to
restore the same float. Names are CASE/SUBJECT. A model's parameters are named as in
model.named_parameters(), gradients as NAME.grad, and sparse ones as NAME.grad.indices and
NAME.grad.values, coalesced.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 3
TRAINERS = 2
ROW_STEPS = 100  # for the optimizers of rows


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
    """Mean of embedding rows, consecutive linear layers, softmax."""

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
    """Each step with the mean of the gradients that the trainers computed from the same
    parameters."""
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
    """A function of floats: its output and the gradient of its first input for a random gradient of
    the output."""
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
    """Some steps of n rows each, low ids more often, the last never. Eighths, which are short in
    the file."""
    indices = (torch.rand(ROW_STEPS, n).pow(2) * (rows - 1)).long()
    gradients = (torch.randn(ROW_STEPS, n, dim) * 8).round() / 8
    initial = (torch.randn(rows, dim) * 8).round() / 8
    emit("optimizer/indices", indices)
    emit("optimizer/gradients", gradients)
    emit("optimizer/initial", initial)
    return initial, [torch.sparse_coo_tensor(i.unsqueeze(0), g, (rows, dim)).coalesce()
                     for i, g in zip(indices, gradients)]


def emit_row_steps(case, factors, steps):
    """`factors`: learning rate, then the optimizer's other factors; `steps` yields the values after
    each step."""
    emit("optimizer/%s/factors" % case, torch.tensor(factors, dtype=torch.float64).float())
    for number, value in enumerate(steps, 1):
        if number in (1, 10, ROW_STEPS):
            emit("optimizer/%s/%d" % (case, number), value.float())


def whole_steps(data, optimizer_class, dense=False, **options):
    """The table as one parameter, with sparse gradients or with gradients that are filled up with
    zeros."""
    initial, gradients = data
    value = initial.clone().requires_grad_()
    optimizer = optimizer_class([value], **options)
    for gradient in gradients:
        value.grad = gradient.to_dense() if dense else gradient
        optimizer.step()
        yield value.detach()


def row_steps(data, optimizer_class, **options):
    """Each row as a parameter of its own, which either has a gradient or is not part of the
    step."""
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
    """Algorithm 1 of the paper (Ad Click Prediction, KDD 2013), in float64: weights are computed
    from z and n whenever they are needed. At n = 0, z is such that they are the initial values."""
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


class Philox:
    """Philox4x32-10 with the derived numbers of runtime/base/rng.h."""

    def __init__(self, seed, stream):
        self.key = seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF
        self.stream = stream
        self.n_blocks = 0
        self.words = []

    def draw_block(self):
        c = [self.n_blocks & 0xFFFFFFFF, self.n_blocks >> 32, self.stream & 0xFFFFFFFF,
             self.stream >> 32]
        k = list(self.key)
        for _ in range(10):
            p0, p1 = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
            c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
            k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
        self.n_blocks += 1
        return c

    def u32(self):
        if not self.words:
            self.words = self.draw_block()
        return self.words.pop(0)

    def below(self, bound):
        while True:
            number = self.u32() | self.u32() << 32
            if number < 2**64 // bound * bound:
                return number % bound


def draw_bags(rng, num_embeddings, learnable):
    """As runtime/trainer/ddp_rpc/bag_batches.h says."""
    n = 20 + rng.below(31)
    ids = [] if learnable else [rng.below(num_embeddings) for _ in range(n)]
    offsets, start = [], 0
    while start < n:
        offsets.append(start)
        start += 1 + rng.below(10)
    classes = min(8, num_embeddings) if learnable else 8
    targets = [rng.below(classes) for _ in offsets]
    if learnable:
        for i in range(n):
            target = targets[sum(offset <= i for offset in offsets) - 1]
            ids.append(target + classes * rng.below((num_embeddings - 1 - target) // classes + 1))
    return torch.tensor(ids), torch.tensor(offsets), torch.tensor(targets)


def scatter(shape, number, bound):
    """Values in [-bound, bound) that a test generates in the same way, because they are too many
    for the file."""
    count = torch.Size(shape).numel()
    mixed = (torch.arange(count) + number * 1000003) * 1540483477 % 2**32
    mixed = (mixed ^ mixed >> 15) * 1540483477 % 2**32
    mixed = (mixed ^ mixed >> 13) * 1540483477 % 2**32 // 256
    return ((mixed.double() / 2**23 - 1) * bound).float().reshape(shape)


def emit_sample(name, tensor, stride):
    emit(name, tensor.reshape(-1)[::stride])


def make_hybrid_layers():
    layers = nn.Sequential(nn.Linear(512, 256), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 64),
                           nn.Linear(64, 32), nn.Linear(32, 8))
    with torch.no_grad():
        for number, parameter in enumerate(layers.parameters()):
            parameter.copy_(scatter(parameter.shape, number, 0.08))
    return layers


def make_hybrid(case, rows):
    """Only the dense part, forward and backward."""
    layers = make_hybrid_layers()
    value = scatter((rows, 512), 100, 1.5).requires_grad_()
    output = layers(value)
    upstream = scatter(output.shape, 101, 1.0)
    output.backward(upstream)
    emit(case + "/output", output)
    emit_sample(case + "/input.grad", value.grad, 13)
    for name, parameter in layers.named_parameters():
        emit_sample("%s/%s.grad" % (case, name), parameter.grad, 97)


def make_ddp_rpc(case, n_tables, dim, num_embeddings, learnable, epochs, batches, lr):
    """One trainer of the DDP + RPC scenario: sparse tables side by side, the dense part on rows of
    512."""
    tables = [nn.EmbeddingBag(num_embeddings, dim, mode="sum", sparse=True)
              for _ in range(n_tables)]
    layers = make_hybrid_layers()
    with torch.no_grad():
        for number, table in enumerate(tables):
            table.weight.copy_(scatter(table.weight.shape, 200 + number, 0.5))
    parameters = [table.weight for table in tables] + list(layers.parameters())
    optimizer = torch.optim.SGD(parameters, lr=lr)
    n_bags = 0
    for epoch in range(epochs):
        rng = Philox(7, 2**63 + epoch)
        for _ in range(batches):
            ids, offsets, targets = draw_bags(rng, num_embeddings, learnable)
            n_bags += len(targets)
            value = torch.cat([table(ids, offsets) for table in tables], dim=1).reshape(-1, 512)
            optimizer.zero_grad()
            loss = nn.CrossEntropyLoss()(layers(value),
                                         targets.repeat_interleave(n_tables * dim // 512))
            loss.backward()
            optimizer.step()
    emit(case + "/samples", torch.tensor([n_bags]))
    emit(case + "/loss", loss.reshape(1))
    for number, table in enumerate(tables):
        emit_sample("%s/table%d" % (case, number), table.weight, 29)
    for name, parameter in layers.named_parameters():
        emit_sample("%s/%s" % (case, name), parameter, 97)


def make_batch_update(case, n_in, n_out, batch, n_trainers, batches, lr, momentum):
    """The batch-updating server: each step applies the mean of the trainers' gradients."""
    model = nn.Linear(n_in, n_out)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum)
    emit(case + "/weight", model.weight)
    emit(case + "/bias", model.bias)
    for step in range(batches):
        optimizer.zero_grad()
        for trainer in range(n_trainers):
            value = torch.randn(batch, n_in)
            loss = nn.L1Loss()(model(value), torch.zeros(batch, n_out))
            loss.backward()
            emit("%s/step%d/trainer%d/input" % (case, step, trainer), value)
            emit("%s/step%d/trainer%d/loss" % (case, step, trainer), loss.reshape(1))
        for parameter in model.parameters():
            parameter.grad /= n_trainers
        optimizer.step()
        emit("%s/step%d/weight" % (case, step), model.weight)
        emit("%s/step%d/bias" % (case, step), model.bias)


def make_compress_hooks(case, n):
    """The effect of torch.distributed.algorithms.ddp_comm_hooks' fp16_compress_hook and
    bf16_compress_hook on two trainers' gradients: cast, divided by their number, added, and cast
    back."""
    gradients = [torch.randn(n) * 10.0 ** torch.randint(-3, 4, (n,)) for _ in range(TRAINERS)]
    for trainer, gradient in enumerate(gradients):
        emit("%s/gradient%d" % (case, trainer), gradient)
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        parts = [gradient.to(dtype).div_(TRAINERS) for gradient in gradients]
        emit("%s/%s" % (case, name), sum(parts[1:], parts[0]).to(torch.float32))


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
    make_hybrid("hybrid_model", 7)
    make_ddp_rpc("ddp_rpc", 2, 256, 30, False, 2, 3, 0.05)
    make_ddp_rpc("ddp_rpc_two_rows_a_bag", 2, 512, 20, True, 1, 4, 0.05)
    make_batch_update("batch_update", 10, 3, 4, 3, 4, 0.001, 0.9)
    make_compress_hooks("compress_hooks", 200)
    return 0


if __name__ == "__main__":
    sys.exit(main())
