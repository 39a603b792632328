# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The shapes of the replies of plugin/http/API.md: the required type of each member.

A type represents its values, None next to it in a tuple represents null, a list represents arrays
of its element, an object represents objects with at least these members, and a function is a check.
"""

TEXT, WHOLE, FLAG = str, int, bool
REAL = (int, float)


def optional(shape):
    return ("optional", shape)


def one_of(*values):
    return ("one of", values)


STATE = {
    "reasons": [one_of("starting", "recovering", "failed", "draining")],
    "warnings": [one_of("full", "read-only")],
}

DURABILITY = {
    "phase": one_of("recovering", "live", "full", "read-only", "failed"),
    "lsn": WHOLE,
    "end_lsn": WHOLE,
    "log_bytes": WHOLE,
}

ROUND = {"arrived": WHOLE, "missing": [WHOLE], "age_s": REAL, "remaining_s": REAL}

IDENTITY = {"time_s": REAL, "start_time_s": REAL, "name": TEXT, "version": TEXT}

SHAPES = {
    "/": {"paths": [TEXT]},
    "/healthz": {"status": one_of("alive", "stuck"), "missing": optional(TEXT)},
    "/readyz": dict(STATE, status=one_of("ready", "not ready")),
    "/version": dict(IDENTITY, pid=WHOLE, services=[TEXT], devices=[TEXT]),
    "/flags": {
        "flags": [{
            "name": TEXT,
            "value": ("any", (TEXT, [TEXT], None)),
            "origin": one_of("command line", "file", "default"),
            "default": optional(TEXT),
            "help": TEXT,
        }]
    },
    "/connections": {
        "time_s": REAL,
        "total": WHOLE,
        "next": optional(WHOLE),
        "connections": [{
            "id": WHOLE,
            "peer": TEXT,
            "transport": one_of("tcp", "unix"),
            "is_encrypted": FLAG,
            "protocol": optional(one_of("binary", "compact")),
            "is_framed": FLAG,
            "principal": TEXT,
            "principal_kind": one_of("anonymous", "uid", "certificate", "token"),
            "tenant": TEXT,
            "age_s": REAL,
            "calls": WHOLE,
            "in_flight": WHOLE,
            "received_bytes": WHOLE,
            "sent_bytes": WHOLE,
            "queued_bytes": WHOLE,
            "shared_bytes": WHOLE,
            "is_half_closed": FLAG,
        }],
    },
    "/tables": {
        "time_s": REAL,
        "total": WHOLE,
        "next": optional(TEXT),
        "bytes": WHOLE,
        "max_bytes": WHOLE,
        "tables": [{
            "name": TEXT,
            "rows": WHOLE,
            "local_rows": WHOLE,
            "dim": WHOLE,
            "dtype": TEXT,
            "optimizer": TEXT,
            "shard": {
                "kind": one_of("whole", "range", "hash"),
                "first_row": optional(WHOLE),
                "index": optional(WHOLE),
                "count": optional(WHOLE),
            },
            "place": TEXT,
            "durability": optional(one_of("none", "interval", "commit")),
            "bytes": WHOLE,
            "lookups": optional(WHOLE),
            "lookup_rows": optional(WHOLE),
            "pushes": optional(WHOLE),
            "push_rows": optional(WHOLE),
        }],
    },
    "/rounds": {
        "time_s": REAL,
        "averaging": optional({
            "trainers": WHOLE,
            "timeout_s": REAL,
            "batch": optional(WHOLE),
            "open": WHOLE,
            "waiting": WHOLE,
            "rounds": [dict(ROUND, batch=WHOLE, param_loc=WHOLE)],
        }),
        "model": optional({
            "trainers": WHOLE,
            "min_trainers": WHOLE,
            "timeout_s": REAL,
            "version": WHOLE,
            "is_updating": FLAG,
            "round": optional(ROUND),
        }),
        "stragglers": [{"trainer": WHOLE, "rounds": WHOLE, "longest_s": REAL}],
    },
    "/slow": {
        "is_enabled": FLAG,
        "calls": [{
            "time_s": REAL,
            "method": TEXT,
            "table": optional(TEXT),
            "peer": optional(TEXT),
            "principal": optional(TEXT),
            "duration_ms": REAL,
            "phases": {name + "_ms": REAL
                       for name in ("decode", "queue", "apply", "wait", "reply")},
            "phase": one_of("decode", "queue", "apply", "wait", "reply"),
            "code": optional(TEXT),
            "trace_id": optional(TEXT),
        }],
    },
    "/status": dict(
        IDENTITY,
        **STATE,
        state=one_of("ready", "not ready"),
        log_levels=TEXT,
        totals={
            name: WHOLE
            for name in ("connections", "max_connections", "accepted", "refused", "in_flight",
                         "requests", "failures", "cancelled", "received_bytes", "sent_bytes")
        },
        budgets=[{
            "name": TEXT,
            "parent": optional(TEXT),
            "held_bytes": WHOLE,
            "peak_bytes": WHOLE,
            "max_bytes": optional(WHOLE),
        }],
        workers={name: WHOLE for name in ("threads", "running", "queued", "queued_long")},
        io_threads=WHOLE,
        durability=optional(dict(
            DURABILITY,
            reason=optional(TEXT),
            log=TEXT,
            recovery_bytes=optional(WHOLE),
            recovery_remaining_s=optional(REAL),
            is_writing_snapshot=FLAG,
            snapshot=optional({"name": TEXT, "lsn": WHOLE, "bytes": WHOLE, "tables": WHOLE,
                               "increments": WHOLE}),
        )),
        quotas=[{
            "tenant": TEXT,
            "in_flight": WHOLE,
            "table_bytes": WHOLE,
            "refused": WHOLE,
            "throttled_s": REAL,
            "limits": [{"kind": TEXT, "used": WHOLE, "max": WHOLE}],
        }],
        http={name: WHOLE for name in ("connections", "streams", "requests", "refused")},
    ),
    "hello": {"name": TEXT, "version": TEXT, "start_time_s": REAL, "latency_bounds_us": [REAL]},
    "sample": dict(
        STATE,
        time_s=REAL,
        interval_s=REAL,
        state=one_of("ready", "not ready"),
        calls=WHOLE,
        failures=WHOLE,
        received_bytes=WHOLE,
        sent_bytes=WHOLE,
        connections=WHOLE,
        in_flight=WHOLE,
        latency=optional([WHOLE]),
        methods=[{"name": TEXT, "calls": WHOLE, "failures": WHOLE, "p50_ms": optional(REAL),
                  "p99_ms": optional(REAL)}],
        tables=[{"name": TEXT, "lookups": WHOLE, "lookup_rows": WHOLE, "pushes": WHOLE,
                 "push_rows": WHOLE}],
        budgets={"process": WHOLE, "pending requests": WHOLE, "HTTP": WHOLE},
        workers={"running": WHOLE, "queued": WHOLE},
        rounds={"open": WHOLE, "oldest_s": REAL, "waiting": WHOLE, "version": WHOLE},
        durability=optional(DURABILITY),
    ),
}


def find_difference(value, shape, place=""):
    """The mismatch of the value, or None."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return "%s is no object: %r" % (place, value)
        differences = (find_difference(value[name], inner, place + "." + name)
                       if name in value else "%s.%s is missing" % (place, name)
                       for name, inner in shape.items())
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return "%s is no array: %r" % (place, value)
        differences = (find_difference(each, shape[0], "%s[%d]" % (place, i))
                       for i, each in enumerate(value))
    elif isinstance(shape, tuple) and shape[0] == "optional":
        return None if value is None else find_difference(value, shape[1], place)
    elif isinstance(shape, tuple) and shape[0] == "one of":
        return None if value in shape[1] else "%s is %r, not one of %r" % (place, value, shape[1])
    elif isinstance(shape, tuple) and shape[0] == "any":
        found = [value is None if each is None else find_difference(value, each, place) is None
                 for each in shape[1]]
        return None if any(found) else "%s is %r" % (place, value)
    else:
        is_fine = isinstance(value, shape) and (shape is FLAG or not isinstance(value, bool))
        return None if is_fine else "%s is %r, not of %r" % (place, value, shape)
    return next((each for each in differences if each is not None), None)
