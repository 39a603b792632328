# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A server in a memory control group, under hostile load together with well-behaved clients.

The test passes if the server runs at the end, every call of a well-behaved client succeeded and was
applied exactly once, the p99 of these calls is at most 10 times the p99 without attackers, and the
memory of the group outside all budgets does not grow between two rounds. A countable push adds 1 to
the client's own column of some rows, so a row shows the number of applied pushes. Without root or
memory control groups, the test is skipped with the reason. --help prints options for longer runs.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import select
import subprocess
import sys
import tempfile
import time
import urllib.request

import attacks
import memory_group
import peers

MIB = 1 << 20
N_HONEST = 8
HONEST = "honest/"
MAX_SLOWDOWN = 10
# A limit below one time slice of the scheduler would measure the machine.
MIN_P99_MS = 2
# The growth between two rounds of the same attacks. Caches and pools reach their plateau in the
# first.
MAX_GROWTH = 1.15
ROUNDS = 2
# The server releases half of its cached buffers every five seconds, down to 16 MiB.
SETTLE_SECONDS = 30


def why_not():
    """The reason why this cannot run here, or None."""
    if os.geteuid() != 0:
        return "a control group needs root"
    if os.getpriority(os.PRIO_PROCESS, 0) > 9:
        return "attackers need a lower priority than this process, which has nearly the lowest one"
    return memory_group.why_not()


class Server:
    """thriftps_server on a TCP and a Unix socket, in the group. A context manager."""

    def __init__(self, group, folder):
        self.log_path = os.path.join(folder, "server.log")
        self.log = open(self.log_path, "w")
        self.unix = "unix:" + os.path.join(folder, "socket")
        self.process = subprocess.Popen(
            [os.path.abspath(os.environ["THRIFTPS_SERVER"]), "--listen=127.0.0.1:0",
             "--listen=" + self.unix, "--ntrainer=2", "--log-level=warning", "--http=127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=self.log, text=True, preexec_fn=group.enter)
        self.tcp = self._address()
        self._address()
        self.http = self._address()

    def _address(self):
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError("the server said %r instead of its address" % line)
        return line[len("listening on "):].strip()

    def held_mib(self):
        """The charges of the budgets, by name."""
        with urllib.request.urlopen(self.http + "/status", timeout=30) as reply:
            return {budget["name"]: budget["held_bytes"] / MIB
                    for budget in json.load(reply)["budgets"]}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


def repeat_attack(attack, tcp, unix, seed, stop, n_begun, n_cut):
    """Counts the started attacks, and those that the server cut short, as it may."""
    dice = random.Random(seed)
    while not stop.is_set():
        n_begun.value += 1
        try:
            attack(tcp, unix, dice)
        except Exception:
            n_cut.value += 1


@contextlib.contextmanager
def attackers(server, seed, names, problems, show):
    """All attacks at the same time, each in a process of its own."""
    context = multiprocessing.get_context("fork")
    stop = context.Event()
    chosen = [attack for attack in attacks.ATTACKS if not names or attack.__name__ in names]
    counts = [(context.Value("L", 0), context.Value("L", 0)) for _ in chosen]
    processes = [context.Process(target=repeat_attack,
                                 args=(attack, server.tcp, server.unix, seed + i, stop, *counts[i]))
                 for i, attack in enumerate(chosen)]
    for process in processes:
        process.start()
        # The well-behaved clients must get the processor, because their time is measured.
        os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    try:
        yield
    finally:
        stop.set()
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        show("attacks (cut short): " + ", ".join(
            "%s %d (%d)" % (attack.__name__, n_begun.value, n_cut.value)
            for attack, (n_begun, n_cut) in zip(chosen, counts)))
        problems += ["attack %s did not begin" % attack.__name__
                     for attack, (n_begun, _) in zip(chosen, counts) if n_begun.value == 0]


def clean_up(server):
    """Removes the lasting state that stopped attackers have left."""
    with peers.Client(server.tcp, attacks.EmbeddingTable) as calls:
        for spec in calls.list_tables():
            if not spec.name.startswith(HONEST):
                calls.drop_table(spec.name)
    with peers.Client(server.tcp, attacks.ParameterServer) as calls:
        calls.reset_state()
    with peers.Client(server.tcp, attacks.Rendezvous) as calls:
        for prefix in ("value/", "other/"):
            calls.remove(prefix)


class HonestClients:
    """The well-behaved clients: one process for all rounds. A context manager."""

    def __init__(self, server):
        self.server = server
        self.process = subprocess.Popen(
            [os.path.abspath(os.environ["HONEST_CLIENTS"]), server.unix, str(N_HONEST)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, seconds, table, progress):
        """Lets them call for this time and returns their report."""
        self.process.stdin.write("%g %s\n" % (seconds, table))
        self.process.stdin.flush()
        end = time.monotonic() + seconds + 120
        while not select.select([self.process.stdout], [], [], 5)[0]:
            progress()
            if self.server.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
        report = self.process.stdout.readline()
        if self.server.process.poll() is not None:
            raise AssertionError("the server ended with status %d"
                                 % self.server.process.returncode)
        if not report:
            raise AssertionError("honest clients did not end within 120 s of their time")
        return json.loads(report)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def settled_mib(group, server, show):
    """The memory of the group beyond the budgets, after cached buffers have been released.

    Budgets may grow from round to round, up to their limits: a push window keeps a floor for each
    client name, because a push id must never become new again.
    """
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        time.sleep(1)
    used, held = group.used_mib(), server.held_mib()
    show("memory: %.0f MiB, of which budgets hold %s" % (
        used, ", ".join("%.0f (%s)" % (mib, name) for name, mib in held.items() if mib >= 0.5)))
    return used - held["process"]


def check_honest(report, quiet, problems, name):
    if report["wrong"]:
        problems.append("%s: %s" % (name, report["wrong"]))
    for kind in ("push", "lookup"):
        now, before = report[kind], quiet[kind]
        if now["n_failed"]:
            problems.append("%s: %d calls of kind %s failed: %s" % (name, now["n_failed"], kind,
                                                                    now["failure"]))
        bound = max(MIN_P99_MS, MAX_SLOWDOWN * before["p99_ms"])
        if now["n"] == 0 or now["p99_ms"] > bound:
            problems.append("%s: p99 of %s is %.1f ms, at most %.1f ms is allowed (%.2f ms without "
                            "attackers)"
                            % (name, kind, now["p99_ms"], bound, before["p99_ms"]))


def soak(mib, seconds, seed, names, show=print):
    """One soak in a group of `mib`; returns a list of problems."""
    problems, used = [], []
    begin = time.monotonic()
    total = seconds * (ROUNDS + 0.25) + SETTLE_SECONDS * ROUNDS

    def progress():
        elapsed = time.monotonic() - begin
        show("%4.0f s, about %.0f s left: server %.0f of %d MiB"
             % (elapsed, max(0, total - elapsed), group.used_mib(), mib))

    def show_report(name, report):
        show("%s: %s" % (name, ", ".join(
            "%s n %d p50 %.2f p99 %.2f max %.1f ms" % (
                kind, report[kind]["n"], report[kind]["p50_ms"], report[kind]["p99_ms"],
                report[kind]["max_ms"])
            for kind in ("push", "lookup"))))

    with tempfile.TemporaryDirectory() as folder, \
            memory_group.MemoryGroup(mib, "thriftps-soak-%d" % os.getpid()) as group, \
            Server(group, folder) as server, HonestClients(server) as honest:
        try:
            quiet = honest.run(seconds / 4, HONEST + "quiet", progress)
            show_report("quiet", quiet)
            check_honest(quiet, quiet, problems, "quiet")
            for i in range(ROUNDS):
                with attackers(server, seed + 1000 * i, names, problems, show):
                    report = honest.run(seconds, HONEST + "round%d" % i, progress)
                clean_up(server)
                show_report("round %d" % i, report)
                check_honest(report, quiet, problems, "round %d" % i)
                used.append(settled_mib(group, server, show))
                show("memory outside the budgets after round %d: %.0f MiB" % (i, used[-1]))
            with peers.Client(server.tcp, attacks.Node) as calls:
                calls.describe()
        except AssertionError as failure:
            problems.append(str(failure))
            with open(server.log_path) as log:
                show("the server's log ends with:\n" + log.read()[-4000:])
    if len(used) == ROUNDS and used[-1] > MAX_GROWTH * used[0] + 8:
        problems.append("memory outside the budgets grew from %.0f to %.0f MiB between two rounds"
                        % (used[0], used[-1]))
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--memory-mib", type=int, nargs="+", default=[400, 1000],
                        help="limits of the control groups")
    parser.add_argument("--seconds", type=float, default=400,
                        help="length of each of the %d rounds" % ROUNDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attack", action="append",
                        choices=[attack.__name__ for attack in attacks.ATTACKS],
                        help="only these attacks; default: all")
    options = parser.parse_args()
    reason = why_not()
    if reason:
        print("skipped: " + reason)
        return 0
    problems = []
    for mib in options.memory_mib:
        print("== %d MiB" % mib, flush=True)
        problems += ["%d MiB: %s" % (mib, problem)
                     for problem in soak(mib, options.seconds, options.seed, options.attack,
                                         lambda line: print(line, flush=True))]
    for problem in problems:
        print("WRONG " + problem)
    print("%d problems" % len(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
