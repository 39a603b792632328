# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Parses the output of parameter_server, and lists the originals' names."""

import re

TRAINER_NAMES = ["backward_metric,backward", "batch_level_metric,batch_all",
                 "forward_metric,forward_pass"]
SERVER_NAMES = ["method_metric,average computation",
                "parameter_server_batch_metric,param_index_batch",
                "parameter_server_straggler_metric,param_index_straggler"]

# The names of each hook for its dense and its sparse buckets. On the CPU, every backend is gloo.
HOOK_NAMES = {
    "rpc_hook": ["hook_future_metric,rpc_dense", "hook_future_metric,rpc_sparse"],
    "sparse_rpc_hook": ["hook_future_metric,gloo_dense_allreduce", "hook_future_metric,rpc_sparse"],
    "allreduce_hook": ["hook_future_metric,gloo_dense_allreduce",
                       "hook_future_metric,gloo_sparse_allreduce"],
    "hybrid_hook": ["hook_c10d_metric,gloo_sparse_allreduce",
                    "hook_future_metric,gloo_dense_allreduce"],
}

COLUMNS = ["name", "min (ms)", "max (ms)", "mean (ms)", "variance (ms^2)", "stdev (ms)", "p50 (ms)",
           "p95 (ms)", "p99 (ms)"]


def trainer_names(hook):
    return sorted(TRAINER_NAMES + HOOK_NAMES[hook])


def _cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def _number(cell):
    return None if cell == "-" else float(cell)


def read_table(lines):
    """Parses a grid of the layout +---+ / header / +===+ / row / +---+ / ...: (columns, {name:
    numbers}).

    A grid without rows has a rule in place of the first row.
    """
    if len(lines) == 4:
        lines = lines[:3] if lines[3] == lines[0] else lines
    widths = [len(part) for part in lines[0].strip("+").split("+")]
    for i, line in enumerate(lines):
        stroke = "=" if i == 2 else "-"
        if i % 2 == 0 and line != "+" + "+".join(stroke * width for width in widths) + "+":
            raise ValueError("line %d is not a rule of %r: %s" % (i, stroke, line))
        if i % 2 == 1 and [len(part) for part in line.strip("|").split("|")] != widths:
            raise ValueError("line %d has other widths: %s" % (i, line))
    rows = [_cells(line) for line in lines[3::2]]
    return _cells(lines[1]), {row[0]: [_number(cell) for cell in row[1:]] for row in rows}


def read_report(text):
    """[(title, columns, {name: numbers})] in the order of the report."""
    tables = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        title = re.fullmatch(r"metrics for (.*)", line)
        if title:
            end = i + 1
            while end < len(lines) and lines[end][:1] in ("+", "|"):
                end += 1
            tables.append((title.group(1), *read_table(lines[i + 1:end])))
    return tables


def figures(output):
    """The figures of a --json file, by name."""
    return {figure["name"]: figure for figure in output["figures"]}


def digests(output):
    """The parameters' digests of a --json file, one of each trainer, in their order."""
    found = {k: v for k, v in output["facts"].items() if k.endswith("/parameters_xxh3_128")}
    return [found[key] for key in sorted(found)]
