# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Compares the calls of the Python package with those of the C client."""

import argparse
import atexit
import glob
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import zipfile

WARM_UP = 3
N_BAGS, N_IDS, DIM = 4096, 20, 64
LR = 0.05


class Config:
    """Sizes and numbers of calls; `smoke` takes seconds."""

    def __init__(self, smoke, rounds):
        self.rounds = rounds or (2 if smoke else 10)
        self.n_floats = 16384 if smoke else 25 << 18
        self.n_rows = 1000 if smoke else 1_000_000
        self.n_calls = {
            "average": 5 if smoke else 20,
            "lookup": 5 if smoke else 50,
            "call": 20 if smoke else 1000,
        }
        self.n_steps = 2 if smoke else 20

    def get_size(self, operation):
        return {"average": self.n_floats, "lookup": self.n_rows, "call": 0}[operation]


# In the runfiles, next to Bazel's own files.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVER = os.path.join(ROOT, "plugin/app/thriftps_server")
C_CALLS = os.path.join(ROOT, "bench/python/c_calls")


def find_wheel():
    wheels = glob.glob(os.path.join(ROOT, "plugin/python/*.whl"))
    if not wheels:
        sys.exit("python: there is no wheel: start this with `./bazelw run //bench:python`")
    return wheels[0]


def start_server(folder):
    address = "unix:" + os.path.join(folder, "s")
    server = subprocess.Popen(
        [SERVER, "--listen=" + address, "--log-level=warning"],
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(stop, server)
    if not server.stdout.readline().startswith("listening on "):
        sys.exit("python: the server does not listen")
    return address


def stop(server):
    server.terminate()
    server.wait()


def measure_c(address, operation, first, config):
    """(nanoseconds of each call, a sum of the last answer)"""
    arguments = [first, config.n_calls[operation], config.get_size(operation)]
    output = subprocess.run(
        [C_CALLS, address, operation, *map(str, arguments)],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
    ).stdout.splitlines()
    return [int(line) for line in output[:-1]], float(output[-1].split()[1])


def make_ids(numpy, i, n_rows):
    """As lookup_prepare() of c_calls.c."""
    k = numpy.arange(N_BAGS * N_IDS, dtype="<i8")
    return (i * N_BAGS * N_IDS + k) * 2654435761 % n_rows


class Calls:
    """The operations in Python, on connections of their own."""

    def __init__(self, address, config):
        import numpy
        import thriftps

        self.numpy = numpy
        self.n_rows = config.n_rows
        self.server = thriftps.Server(address, timeout=60)
        self.tables = thriftps.connect(address, timeout=60)
        self.table = self.tables.create(
            "bench", config.n_rows, DIM, initializer=thriftps.Uniform(seed=1)
        )
        self.gradient = (numpy.arange(config.n_floats) % 251).astype("<f4")
        self.offsets = numpy.arange(0, N_BAGS * N_IDS, N_IDS)
        self.busy = {operation: [] for operation in config.n_calls}

    def close(self):
        self.server.close()
        self.tables.close()

    def prepare(self, operation, i):
        if operation == "lookup":
            self.ids = make_ids(self.numpy, i, self.n_rows)

    def run(self, operation, i):
        if operation == "average":
            return self.server.average(0, i, 0, self.gradient)
        if operation == "lookup":
            return self.table.lookup_bags(self.ids, self.offsets)
        self.server.describe()
        return None

    def measure(self, operation, first, n_calls):
        """As measure_c(). Adds the processor time of this thread to `busy`."""
        times = []
        for i in range(first - WARM_UP, first + n_calls):
            self.prepare(operation, i)
            answer = None  # before the call, as in C
            began, busy = time.perf_counter_ns(), time.thread_time_ns()
            answer = self.run(operation, i)
            if i >= first:
                times.append(time.perf_counter_ns() - began)
                self.busy[operation].append(time.thread_time_ns() - busy)
        return times, 0.0 if answer is None else float(answer.sum(dtype="f8"))


class Training:
    """Steps with a local or a remote bag."""

    def __init__(self, torch, tps, tables, n_rows, is_remote):
        self.torch = torch
        self.is_remote = is_remote
        self.n_rows = n_rows
        if is_remote:
            self.bags = tps.RemoteEmbeddingBag(
                tables, "training", n_rows, DIM, mode="sum", optimizer=tps.Adagrad(lr=LR)
            )
            self.end = tps.step
        else:
            self.bags = torch.nn.EmbeddingBag(n_rows, DIM, mode="sum", sparse=True)
            self.optimizer = torch.optim.Adagrad(self.bags.parameters(), lr=LR)
            self.end = self.step_locally

    def step_locally(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def measure(self, first, n_steps):
        import numpy

        times = []
        for i in range(first - WARM_UP, first + n_steps):
            ids = self.torch.from_numpy(make_ids(numpy, i, self.n_rows)).reshape(N_BAGS, N_IDS)
            began = time.perf_counter_ns()
            self.bags(ids).square().mean().backward()
            self.end()
            if i >= first:
                times.append(time.perf_counter_ns() - began)
        return times


def percentile(values, percent):
    ordered = sorted(values)
    return ordered[min(len(ordered) * percent // 100, len(ordered) - 1)]


class Report:
    """Samples in nanoseconds by name."""

    def __init__(self):
        self.samples = {}
        self.wrong = {}

    def add(self, name, times, is_right=True):
        self.samples.setdefault(name, []).extend(times)
        self.wrong[name] = self.wrong.get(name, 0) + (not is_right)

    def get_median(self, name):
        return percentile(self.samples[name], 50)

    def to_json(self, ratios, overhead_us):
        figures = [
            {
                "name": name,
                "unit": "us",
                **{"p%d" % p: percentile(times, p) / 1e3 for p in (50, 95, 99)},
                "wrong": self.wrong[name],
                "samples": [each / 1e3 for each in times],
            }
            for name, times in self.samples.items()
        ]
        return {
            "schema": 1,
            "benchmark": "python",
            "python": platform.python_version(),
            "figures": figures,
            "ratios": ratios,
            "overhead_us": overhead_us,
        }

    def get_ratio(self, name, ours, peer):
        values = [self.get_median("%s, %s" % (name, each)) / 1e3 for each in (ours, peer)]
        return {"name": name, "ours": values[0], "peer": values[1], "ratio": values[0] / values[1]}


def run_calls(address, config, report):
    calls = Calls(address, config)
    first = WARM_UP
    for _ in range(config.rounds):
        for operation, n_calls in config.n_calls.items():
            checks = []
            # The batches of an average grow; both sides look up the same ids.
            in_c, in_python = first, first + (n_calls + WARM_UP if operation == "average" else 0)
            for name, (times, check) in (
                ("C", measure_c(address, operation, in_c, config)),
                ("Python", calls.measure(operation, in_python, n_calls)),
            ):
                checks.append(check)
                is_right = abs(check - checks[0]) <= 1e-6 * abs(checks[0])
                report.add("%s, %s" % (operation, name), times, is_right)
            first += 2 * (n_calls + WARM_UP)
    for operation, times in calls.busy.items():
        report.add("%s, Python's CPU" % operation, times)
    calls.close()


def run_training(address, config, report):
    """Returns False if PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        return False
    import thriftps.torch as tps

    tables = tps.connect(address, timeout=60)
    systems = {
        name: Training(torch, tps, tables, config.n_rows, is_remote)
        for name, is_remote in (("remote", True), ("local", False))
    }
    for i in range(config.rounds):
        for name, training in systems.items():
            first = WARM_UP + i * (config.n_steps + WARM_UP)
            report.add("training, " + name, training.measure(first, config.n_steps))
    tables.close()
    return True


def print_table(output):
    print("%-22s %12s %12s %12s %6s" % ("", "p50 us", "p95 us", "p99 us", "wrong"))
    for figure in output["figures"]:
        print("%(name)-22s %(p50)12.1f %(p95)12.1f %(p99)12.1f %(wrong)6d" % figure)
    print()
    for ratio in output["ratios"]:
        print("%(name)-22s %(ratio)12.2f" % ratio)
    print("%-22s %12.1f us" % ("overhead", output["overhead_us"]))


def main():
    parser = argparse.ArgumentParser(prog="python", description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small sizes and few calls, for tests")
    parser.add_argument("--rounds", type=int, default=0, help="runs of each row (10)")
    parser.add_argument("--json", metavar="FILE", help="all samples, and the ratios")
    options = parser.parse_args()
    if options.json:  # Bazel starts this program in another folder
        options.json = os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""), options.json)
    config, report = Config(options.smoke, options.rounds), Report()
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(find_wheel()) as wheel:
            wheel.extractall(folder)
        sys.path.insert(0, folder)
        address = start_server(folder)
        run_calls(address, config, report)
        ratios = [report.get_ratio(name, "Python", "C") for name in config.n_calls]
        if run_training(address, config, report):
            ratios.append(report.get_ratio("training", "remote", "local"))
    overhead_us = ratios[2]["ours"] - ratios[2]["peer"]
    output = report.to_json(ratios, overhead_us)
    print_table(output)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(output, file)
    sys.exit(1 if any(report.wrong.values()) else 0)


if __name__ == "__main__":
    main()
