# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Replies of an imaginary busy server, with the same figures in each run.

1,000 tables, 200 connections, a late trainer, a full quota, and hostile names.
"""

import math
import random

START_S = 1790000000.0
N_TABLES = 1000
N_CONNECTIONS = 200
N_TRAINERS = 64
LATE_TRAINER = 5
LATENCY_BOUNDS_US = [round(8 * 2 ** (i / 2), 1) for i in range(40)]
METHODS = [
    ("EmbeddingTable:lookup_bags", 9000, 0.35),
    ("EmbeddingTable:apply_bag_gradients", 2400, 1.8),
    ("ParameterServer:average_gradient", 1200, 22.0),
    ("EmbeddingTable:lookup_rows", 800, 0.2),
    ("ParameterServer:update_and_fetch_model", 64, 40.0),
    ("Node:describe", 3, 0.05),
]
IMAGE = "<img src=x onerror=\"document.title='taken over'\">"
SCRIPT = "</td><script>document.title='taken over'</script>"
HOSTILE = [IMAGE, SCRIPT, "\u202egnp.exe\u0000\u0007", "&lt;b&gt;&amp;", "a" * 300]
GIB = 1 << 30


def table_name(i):
    return HOSTILE[i] if i < len(HOSTILE) else "%s/%s_%03d" % (
        ("ads", "feed", "search")[i % 3], ("users", "items", "words", "clicks")[i % 4], i)


def tables(elapsed_s):
    for i in range(N_TABLES):
        dice = random.Random(i)
        rows = int(10 ** dice.uniform(3, 7.5))
        dim = dice.choice((16, 32, 64, 128))
        rate = int(10 ** dice.uniform(0, 3.5))
        yield {
            "name": table_name(i), "rows": 2 * rows, "local_rows": rows, "dim": dim,
            "dtype": "FLOAT32", "optimizer": dice.choice(("ADAGRAD", "SGD", "ADAM", "FTRL")),
            "shard": {"kind": ("whole", "range", "hash")[i % 3],
                      "first_row": rows if i % 3 == 1 else None, "index": 1, "count": 2},
            "place": "cuda:0" if i % 7 == 0 else "cpu", "durability": "commit",
            "bytes": rows * dim * 8, "lookups": int(rate * elapsed_s),
            "lookup_rows": int(rate * 40 * elapsed_s), "pushes": int(rate * elapsed_s / 4),
            "push_rows": int(rate * 10 * elapsed_s),
        }


def connections(elapsed_s):
    for i in range(N_CONNECTIONS):
        dice = random.Random(1000 + i)
        rate = 10 ** dice.uniform(0, 3)
        yield {
            "id": 17 + i, "peer": "10.0.%d.%d:%d" % (i // 50, i % 50 + 2, 40000 + 7 * i),
            "transport": "tcp", "is_encrypted": i % 3 > 0,
            "protocol": None if i == 9 else ("binary", "compact")[i % 2], "is_framed": True,
            "principal": HOSTILE[i] if i < len(HOSTILE) else "trainer-%d" % i,
            "principal_kind": ("token", "certificate", "uid", "anonymous")[i % 4],
            "tenant": ("search", "ads", IMAGE)[i % 3], "age_s": dice.uniform(1, 90000),
            "calls": int(rate * elapsed_s), "in_flight": dice.randrange(0, 60) if i % 4 == 0 else 0,
            "received_bytes": int(rate * 4096 * elapsed_s),
            "sent_bytes": int(rate * 90000 * elapsed_s), "queued_bytes": 5 << 20 if i == 3 else 0,
            "shared_bytes": 0, "is_half_closed": i == 11,
        }


def latency(time_s, calls):
    """Counts by bucket of calls whose median drifts, with an occasional slow minority."""
    median_us = 350 * (1 + 0.5 * math.sin(time_s / 37))
    slow = 0.04 if (time_s // 40) % 4 == 0 else 0.004
    counts = [0] * (len(LATENCY_BOUNDS_US) + 1)
    for i, bound in enumerate(LATENCY_BOUNDS_US):
        for share, center, width in ((1 - slow, median_us, 0.5), (slow, 26000, 0.7)):
            distance = math.log(bound / center) / width
            height = 0.35 / width / 2.5
            counts[i] += int(calls * share * height * math.exp(-distance * distance / 2))
    return counts


HELLO = {"name": "server0", "version": "0.1.0", "start_time_s": START_S,
         "latency_bounds_us": LATENCY_BOUNDS_US}


def sample(number, elapsed_s):
    """The sample of the second `elapsed_s` after the start."""
    time_s = START_S + elapsed_s
    dice = random.Random(number)
    rate = int((13000 + 3500 * math.sin(elapsed_s / 90)) * dice.uniform(0.93, 1.07))
    counts = latency(time_s, rate)
    calls = sum(counts)
    total = sum(each for _, each, _ in METHODS)
    return {
        "time_s": time_s, "interval_s": 1.0, "state": "ready", "reasons": [], "warnings": [],
        "calls": calls,
        "failures": dice.randrange(1, 40) if elapsed_s % 50 < 3 else 0,
        "received_bytes": rate * 4100, "sent_bytes": rate * 61000, "connections": N_CONNECTIONS,
        "in_flight": dice.randrange(40, 300), "latency": counts,
        "methods": [{"name": name, "calls": calls * each // total,
                     "failures": 3 if "average" in name else 0,
                     "p50_ms": p50_ms * dice.uniform(0.9, 1.1), "p99_ms": 6 * p50_ms}
                    for name, each, p50_ms in METHODS],
        "tables": [],
        "budgets": {"process": int((9 + math.sin(elapsed_s / 200)) * GIB),
                    "pending requests": 1 << 28, "HTTP": 1 << 20},
        "workers": {"running": 2, "queued": 5},
        "rounds": {"open": 12, "oldest_s": 21.5, "waiting": 756, "version": 42},
        "durability": {"phase": "live", "lsn": int(elapsed_s * 2600),
                       "end_lsn": int(elapsed_s * 2600) + dice.randrange(0, 900),
                       "log_bytes": int(elapsed_s * 31e6)},
    }


def rounds(elapsed_s):
    missing = [LATE_TRAINER]
    each = [{"batch": 1021, "param_loc": i, "arrived": N_TRAINERS - 1,
             "missing": missing, "age_s": 21.5 - i, "remaining_s": 8.5 + i} for i in range(12)]
    return {
        "time_s": START_S + elapsed_s,
        "averaging": {"trainers": N_TRAINERS, "timeout_s": 30.0, "batch": 1021, "open": 12,
                      "waiting": 12 * 63, "rounds": each},
        "model": {"trainers": N_TRAINERS, "min_trainers": 48, "timeout_s": 30.0, "version": 42,
                  "is_updating": False,
                  "round": {"arrived": 60, "missing": [1, LATE_TRAINER, 7, 33],
                            "age_s": 4.5, "remaining_s": 25.5}},
        "stragglers": [{"trainer": LATE_TRAINER, "rounds": 13, "longest_s": 21.5}]
        + [{"trainer": i, "rounds": 1, "longest_s": 4.5} for i in (1, 7, 33)],
    }


def budget(name, parent, held, peak, limit):
    return {"name": name, "parent": parent, "held_bytes": int(held * GIB),
            "peak_bytes": int(peak * GIB), "max_bytes": limit and int(limit * GIB)}


def status(elapsed_s):
    newest = sample(int(elapsed_s), elapsed_s)
    return {
        "time_s": START_S + elapsed_s, "start_time_s": START_S, "name": "server0",
        "version": "0.1.0", "state": "ready", "reasons": [], "warnings": [],
        "log_levels": "info,tables=debug",
        "totals": {"connections": N_CONNECTIONS, "max_connections": 1024, "accepted": 4181,
                   "refused": 3, "in_flight": newest["in_flight"],
                   "requests": int(13000 * elapsed_s), "failures": 812, "cancelled": 7,
                   "received_bytes": int(5e7 * elapsed_s), "sent_bytes": int(7e8 * elapsed_s)},
        "budgets": [
            budget("process", None, 9.4, 11.2, 28), budget("tables", "process", 7.6, 7.6, 24),
            budget("pending", "process", 0.9, 3.8, 4), budget("averages", "pending", 0.4, 1.9, 4),
            budget("replies", "pending", 0.2, 1.1, 4), budget("shared", "pending", 0.25, 0.5, 2),
            budget("windows", "process", 0.21, 0.22, 0.25),
            budget("rendezvous", "process", 0.001, 0.002, 0.25),
        ],
        "workers": {"threads": 16, "running": 11, "queued": 5, "queued_long": 1}, "io_threads": 8,
        "durability": {
            "phase": "live", "reason": None, "log": "0123456789abcdef0123456789abcdef",
            "lsn": newest["durability"]["lsn"], "end_lsn": newest["durability"]["end_lsn"],
            "log_bytes": newest["durability"]["log_bytes"], "recovery_bytes": None,
            "recovery_remaining_s": None, "is_writing_snapshot": True,
            "snapshot": {"name": "snapshot-00000000000009183200", "lsn": 9183200,
                         "bytes": int(7.4 * GIB), "tables": N_TABLES, "increments": 3}},
        "quotas": [
            {"tenant": tenant, "in_flight": 3 + i, "table_bytes": 7 * GIB, "refused": 12 * i,
             "throttled_s": 1.25 * i,
             "limits": [{"kind": "calls_per_s", "used": 812 + i, "max": 1000},
                        {"kind": "rows_per_s", "used": 98000 // (i + 1), "max": 100000},
                        {"kind": "bytes_in_per_s", "used": 3000000 * (i + 1), "max": 50000000},
                        {"kind": "table_bytes", "used": 7 * GIB, "max": 16 * GIB}]}
            for i, tenant in enumerate(("search", "ads", IMAGE))],
        "http": {"connections": 2, "streams": 1, "requests": 81, "refused": 0},
    }


def slow(elapsed_s):
    dice = random.Random(7)
    calls = []
    for i in range(60):
        name, _, _ = METHODS[i % 5]
        phases = {"decode_ms": dice.uniform(0, 3), "queue_ms": dice.uniform(0, 30),
                  "apply_ms": dice.uniform(1, 40),
                  "wait_ms": dice.uniform(20, 60) if "average" in name else 0.0,
                  "reply_ms": dice.uniform(0.1, 6)}
        longest = max(phases, key=phases.get)
        calls.append({
            "time_s": START_S + elapsed_s - i, "method": name,
            "table": table_name(i) if "Embedding" in name else None, "peer": "10.0.0.7:40312",
            "principal": HOSTILE[i] if i < 3 else "trainer-%d" % i,
            "duration_ms": sum(phases.values()), "phases": phases, "phase": longest[:-3],
            "code": "DEADLINE_EXCEEDED" if i % 9 == 0 else None,
            "trace_id": "4bf92f3577b34da6a3ce929d0e0e%04x" % i if i % 2 else None})
    calls.sort(key=lambda call: -call["duration_ms"])
    return {"is_enabled": True, "calls": calls}


def version(elapsed_s):
    return {"name": "server0", "version": "0.1.0", "pid": 4242, "start_time_s": START_S,
            "time_s": START_S + elapsed_s,
            "services": ["ParameterServer", "EmbeddingTable", "Node"], "devices": ["cpu", "cuda:0"]}


def flags():
    return {"flags": [
        {"name": "ntrainer", "value": "64", "origin": "command line", "default": "1",
         "help": "Trainers of an average"},
        {"name": "listen", "value": ["0.0.0.0:9090", "unix:/run/ps"], "origin": "file",
         "default": "127.0.0.1:9090", "help": "Address to listen on, may be repeated"},
        {"name": "max-pending-mib", "value": None, "origin": "default",
         "default": "a quarter of the memory", "help": "Tensors of all pending calls"},
        {"name": "name", "value": IMAGE, "origin": "command line", "default": "thriftps_server",
         "help": "Name in replies of Node.describe"},
    ]}


def empty(path, elapsed_s):
    """Replies of a server that has just started and is empty."""
    usual = status(elapsed_s)
    return {
        "/tables": {"time_s": START_S, "total": 0, "next": None, "bytes": 0, "max_bytes": 1 << 35,
                    "tables": []},
        "/connections": {"time_s": START_S, "total": 0, "next": None, "connections": []},
        "/rounds": {"time_s": START_S, "averaging": None, "model": None, "stragglers": []},
        "/slow": {"is_enabled": False, "calls": []},
        "/status": dict(usual, durability=None, quotas=[]),
        "/flags": flags(),
        "/version": version(elapsed_s),
    }[path]
