# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Measures steps of //bench:parameter_server between hosts whose links are slow, and compares them
with the bound of the links.

The hosts are network namespaces of this machine. This needs root and the programs ip, tc, unshare
and setpriv; without them the exit status is 3, and the reason is printed.

bound = forward + optimizer + max (backward, bytes / rate): the bytes of a step at the busiest end
of a link, in its busier direction, at the full rate and at the same time as the whole backward
pass. Forward, backward and optimizer are measured with as many trainers that have no network.

Exit status: 0 success, 1 a world failed, 2 a bad flag, 3 this machine cannot run it, 130
interrupted.
"""

import argparse
import collections
import json
import os
import re
import signal
import statistics
import sys
import time

import cluster
import namespaces
import network_report

# In the runfiles, next to Bazel's own files.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.join(ROOT, "bench/parameter_server/parameter_server")
RELAY = os.path.join(ROOT, "bench/network/relay")

HOOKS = {"rpc": "rpc_hook", "sparse_rpc": "sparse_rpc_hook", "allreduce": "allreduce_hook",
         "hybrid": "hybrid_hook"}
NEEDS_NO_SERVER = ("allreduce",)
UNITS = {"mbit": 10**6, "gbit": 10**9}
SKIPPED = 3

# For the estimate before the first measurement: the bytes of a trainer in a step of the default
# model, the fraction that a compression leaves, and the seconds to start a world.
STEP_BYTES = 37e6
SHARES = {"none": 1, "fp16": 0.5, "bf16": 0.5, "topk": 0.15}
START_S = 2.5

Case = collections.namedtuple("Case", "rate hook compress servers delay_ms loss")
Measured = collections.namedtuple("Measured", "case steps_ms n_bytes bound_ms link_ms")


def parse_rate(text):
    match = re.fullmatch(r"(\d+)(mbit|gbit)", text)
    if not match or int(match.group(1)) == 0:
        raise argparse.ArgumentTypeError("%s: expected a rate such as 100mbit or 10gbit" % text)
    return int(match.group(1)) * UNITS[match.group(2)]


def list_of(parse):
    def parse_list(text):
        return [parse(part) for part in text.split(",")]
    return parse_list


def parse_hook(text):
    if text not in HOOKS:
        raise argparse.ArgumentTypeError("%s: expected one of %s" % (text, ", ".join(HOOKS)))
    return text


def parse_count(text):
    if not text.isdigit() or not 1 <= int(text) <= 32:
        raise argparse.ArgumentTypeError("%s: expected a number from 1 to 32" % text)
    return int(text)


def parse_percent(text):
    value = float(text)
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError("%s: expected a percentage from 0 to below 100" % text)
    return value


def parse_congestion(text):
    path = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
    with open(path, encoding="ascii") as file:
        known = file.read().split()
    if text not in known:
        raise argparse.ArgumentTypeError("%s: expected one of %s (%s)"
                                         % (text, ", ".join(known), path))
    return text


def parse_flags(argv):
    parser = argparse.ArgumentParser(prog="network", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rates", type=list_of(parse_rate), metavar="RATE,...",
        help="rates of all links (100mbit,1gbit,10gbit)")
    add("--hooks", type=list_of(parse_hook), metavar="HOOK,...",
        help="%s (rpc,sparse_rpc,allreduce)" % ", ".join(HOOKS))
    add("--compress", type=lambda text: text.split(","), metavar="KIND,...",
        help="as --compress of parameter_server (none,fp16,topk:0.01)")
    add("--trainers", type=parse_count, default=2, metavar="N", help="trainers (2)")
    add("--servers", type=list_of(parse_count), metavar="N,...",
        help="numbers of servers (1; 1,2 with --full)")
    add("--steps", type=parse_count, metavar="N",
        help="measured steps of a trainer, after as many that are not (2; 5 with --full)")
    add("--delay-ms", type=list_of(float), default=[0.0], metavar="MS,...",
        help="delay of every packet, each way, by a relay (0)")
    add("--loss", type=list_of(parse_percent), default=[0.0], metavar="PERCENT,...",
        help="packets that the relay loses (0)")
    add("--congestion", type=parse_congestion, default="reno", metavar="NAME",
        help="congestion control of TCP; namespaces may use those that users may (reno)")
    add("--flag", action="append", default=[], metavar="FLAG",
        help="a further flag of parameter_server, for all roles; may be repeated")
    add("--json", metavar="FILE", help="write everything, samples included")
    add("--full", action="store_true", help="more steps and servers, about 20 minutes")
    add("--smoke", action="store_true", help="a small model and few cases, seconds in all")
    flags = parser.parse_args(argv)
    fill_defaults(flags)
    return flags


def fill_defaults(flags):
    """Values that depend on --smoke and --full."""
    def default(name, usual, smoke, full):
        if getattr(flags, name) is None:
            setattr(flags, name, smoke if flags.smoke else full if flags.full else usual)

    all_rates, compressions = [10**8, 10**9, 10**10], ["none", "fp16", "topk:0.01"]
    default("rates", all_rates, [10**9], all_rates)
    default("hooks", ["rpc", "sparse_rpc", "allreduce"], ["rpc", "allreduce"], list(HOOKS)[:3])
    default("compress", compressions, ["none"], compressions)
    default("servers", [1], [1], [1, 2])
    default("steps", 2, 2, 5)
    if flags.json:  # Bazel starts this program in another folder
        flags.json = os.path.abspath(os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""),
                                                  flags.json))


def list_cases(flags):
    return [Case(rate, hook, compress, servers, delay_ms, loss)
            for delay_ms in flags.delay_ms for loss in flags.loss for rate in flags.rates
            for hook in flags.hooks for compress in flags.compress
            for servers in ([0] if hook in NEEDS_NO_SERVER else flags.servers)]


class Worlds:
    """Runs worlds of parameter_server on clusters."""

    def __init__(self, flags):
        self._flags = flags
        self.about = {}  # version and host, as the worlds report them

    def _write_data(self, folder, n_trainers):
        """One pass has the wanted number of steps."""
        path = os.path.join(folder, "data.json")
        name, most, length = ("DummyDataSmall", 64, 16) if self._flags.smoke else (
            "DummyData", 1024, 1024)
        batch = 4 if self._flags.smoke else 32
        data = {name: {"data_class": "DummyData", "configurations": {
            "max_val": most, "sample_count": batch * n_trainers * self._flags.steps,
            "sample_length": length, "sparsity_percentage": 20}}}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file)
        return ["--data=" + name, "--data-config-path=" + path, "--batch-size=%d" % batch,
                "--model=" + ("DummyModelSmall" if self._flags.smoke else "DummyModelSparse"),
                *self._flags.flag]

    def _read(self, path, metric, n_trainers):
        """The samples of all trainers in ms."""
        with open(path, encoding="utf-8") as file:
            output = json.load(file)
        self.about = {name: output[name] for name in ("version", "host")}
        wanted = ["trainer=%d/%s" % (rank, metric) for rank in range(n_trainers)]
        return [sample for figure in output["figures"] if figure["name"] in wanted
                for sample in figure["samples"]]

    def measure_compute(self, show):
        """Medians of (forward, backward, optimizer) in ms of trainers that run side by side without
        a network."""
        n_trainers = self._flags.trainers
        with cluster.Cluster(n_trainers, cluster.NO_LIMIT, RELAY) as hosts:
            paths = []
            for number in range(1, n_trainers + 1):
                paths.append(os.path.join(hosts.folder, "%d.json" % number))
                hosts.start(number, "trainer%d" % number, PROGRAM, "--ntrainer=1", "--nserver=0",
                            "--ddp-hook=allreduce_hook", "--json=" + paths[-1],
                            *self._write_data(hosts.folder, 1))
            hosts.wait(show)
            whole, forward, backward = [
                statistics.median(sample for path in paths for sample in self._read(path, name, 1))
                for name in ("batch_level_metric,batch_all", "forward_metric,forward_pass",
                             "backward_metric,backward")]
        return forward, backward, max(whole - forward - backward, 0)

    def measure(self, case, show):
        """(steps in ms, bytes of a step at the busiest end of a link) of a world."""
        n_trainers = self._flags.trainers
        n_hosts = n_trainers + case.servers
        links = cluster.Links(case.rate, case.delay_ms, case.loss, self._flags.congestion)
        with cluster.Cluster(n_hosts, links, RELAY) as hosts:
            path = os.path.join(hosts.folder, "out.json")
            world = [PROGRAM, "--ntrainer=%d" % n_trainers, "--nserver=%d" % case.servers,
                     "--ddp-hook=" + HOOKS[case.hook], "--compress=" + case.compress,
                     "--master-addr=10.98.0.%d" % (n_hosts + 1), "--rpc-timeout=120",
                     *self._write_data(hosts.folder, n_trainers)]
            for rank in range(n_hosts):
                name = "trainer%d" % rank if rank < n_trainers else "server%d" % rank
                hosts.start(rank + 1, name, *world, "--rank=%d" % rank,
                            "--bind=10.99.0.%d" % (rank + 1))
            hosts.start(n_hosts + 1, "master", *world, "--rank=%d" % n_hosts, "--json=" + path)
            hosts.wait(show)
            n_bytes = max(max(each) for each in hosts.get_bytes())
            steps = self._read(path, "batch_level_metric,batch_all", n_trainers)
        # The warm-up is a pass of the same length.
        return steps, n_bytes / (2 * len(steps) / n_trainers)


class Progress:
    """A line on stderr with an estimate, which improves with each case."""

    def __init__(self, flags, cases):
        self._expected = [self._expect(flags, case) for case in cases]
        self._n_done = 0
        self._spent_s = 0
        self._began = time.monotonic()

    @staticmethod
    def _expect(flags, case):
        n_bytes = 1e5 if flags.smoke else STEP_BYTES
        n_bytes *= flags.trainers * SHARES.get(case.compress.split(":")[0], 1)
        return START_S + 2 * flags.steps * (n_bytes * 8 / case.rate * 1.5 + 0.3)

    def get_left_s(self):
        done = sum(self._expected[:self._n_done])
        factor = self._spent_s / done if done > 10 else 1
        running = time.monotonic() - self._began
        return max(factor * sum(self._expected[self._n_done:]) - running, 0)

    def begin(self):
        self._began = time.monotonic()

    def end(self):
        self._spent_s += time.monotonic() - self._began
        self._n_done += 1
        self._began = time.monotonic()

    def show(self, measurement):
        check_interrupt()
        left = self.get_left_s()
        network_report.say("%d of %d: %s; about %s left" % (
            self._n_done + 1, len(self._expected), measurement,
            "%d min" % round(left / 60) if left > 90 else "%d s" % left))


def run(flags):
    cases = list_cases(flags)
    worlds, progress = Worlds(flags), Progress(flags, cases)
    network_report.say("compute without a network; about %d s for all %d cases"
                       % (progress.get_left_s(), len(cases)))
    compute = worlds.measure_compute(check_interrupt)
    measured = []
    for case in cases:
        name = network_report.name_case(case)
        progress.begin()
        progress.show(name)
        steps, n_bytes = worlds.measure(case, lambda name=name: progress.show(name))
        measured.append(weigh(case, steps, n_bytes, compute))
        progress.end()
    network_report.say("")
    return network_report.Results(worlds.about, compute, measured)


def weigh(case, steps_ms, n_bytes, compute):
    """Adds the bound, which the text of --help defines."""
    forward, backward, optimizer = compute
    link_ms = n_bytes * 8e3 / case.rate
    return Measured(case, steps_ms, n_bytes, forward + optimizer + max(backward, link_ms), link_ms)


_signals = []  # received signals


def interrupt(number, _):
    _signals.append(number)
    raise KeyboardInterrupt


def check_interrupt():
    """An exception of a signal is lost if it comes during a destructor."""
    if _signals:
        raise KeyboardInterrupt


def main(argv):
    flags = parse_flags(argv)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        reason = namespaces.why_not(cluster.TOOLS)
        if reason is not None:
            print("network: skipped: %s" % reason)
            return SKIPPED
        results = run(flags)
    except KeyboardInterrupt:
        print("network: interrupted", file=sys.stderr)
        return 130
    except cluster.Failed as error:
        print("network: %s" % error, file=sys.stderr)
        return 1
    network_report.print_table(results)
    if flags.json:
        network_report.write_json(flags, results)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
