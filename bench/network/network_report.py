# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The output of network.py: a line of progress, a table, JSON of schema 1."""

import collections
import json
import os
import statistics
import sys

# about: version and host of the JSON; compute: ms of forward, backward and optimizer; measured: a
# network.Measured for each case.
Results = collections.namedtuple("Results", "about compute measured")

HEAD = ("link", "hook", "compress", "servers", "p50 ms", "p95 ms", "MB/step", "link ms", "bound ms",
        "p50/bound", "gain")
FORMAT = "%-8s %-11s %-10s %7s %9s %9s %9s %9s %9s %9s %6s"


def name_rate(rate):
    return "%dgbit" % (rate // 10**9) if rate % 10**9 == 0 else "%dmbit" % (rate // 10**6)


def name_case(case):
    """"rpc, topk:0.01, 1gbit, 2 servers, 20 ms, 1 % loss"."""
    parts = [case.hook, case.compress, name_rate(case.rate)]
    if case.servers > 1:
        parts.append("%d servers" % case.servers)
    if case.delay_ms:
        parts.append("%g ms" % case.delay_ms)
    if case.loss:
        parts.append("%g %% loss" % case.loss)
    return ", ".join(parts)


def say(text):
    """Replaces the line of progress; writes whole lines where stderr is a file."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K" + text)
    elif text and text.partition("; ")[0] != say.last.partition("; ")[0]:
        sys.stderr.write(text + "\n")
    say.last = text
    sys.stderr.flush()


say.last = ""


def percentile(values, percent):
    """As numpy.percentile."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def find_gain(one, measured):
    """The step without compression / the step of `one`; None if it was not measured."""
    for other in measured:
        if other.case == one.case._replace(compress="none") and other is not one:
            return percentile(other.steps_ms, 50) / percentile(one.steps_ms, 50)
    return None


def make_rows(measured):
    """Texts, one list per case."""
    rows = []
    for one in measured:
        case, p50 = one.case, percentile(one.steps_ms, 50)
        gain = find_gain(one, measured)
        link = name_rate(case.rate)
        if case.delay_ms:
            link += "+%gms" % case.delay_ms
        if case.loss:
            link += "-%g%%" % case.loss
        rows.append([link, case.hook, case.compress, str(case.servers), "%.1f" % p50,
                     "%.1f" % percentile(one.steps_ms, 95), "%.2f" % (one.n_bytes / 1e6),
                     "%.1f" % one.link_ms, "%.1f" % one.bound_ms, "%.2f" % (p50 / one.bound_ms),
                     "" if gain is None else "%.2f" % gain])
    return rows


def print_table(results):
    print("compute without a network: forward %.1f ms, backward %.1f ms, optimizer %.1f ms"
          % results.compute)
    print("bound = forward + optimizer + max (backward, link); MB/step and link: the busiest end of"
          " a link, its busier direction; gain: the step of none / this step\n")
    print((FORMAT % HEAD).rstrip())
    for row in make_rows(results.measured):
        print((FORMAT % tuple(row)).rstrip())


def _figure(name, unit, samples):
    return {"name": name, "unit": unit, "n": len(samples),
            **{"p%d" % p: percentile(samples, p) for p in (50, 95, 99)},
            "min": min(samples), "max": max(samples), "mean": statistics.fmean(samples),
            "samples": samples}


def _ratio(name, ours, peer):
    return {"name": name, "ours": ours, "peer": peer, "ratio": ours / peer, "better": "lower"}


def write_json(flags, results):
    figures = [_figure(name, "ms", [value]) for name, value in
               zip(("forward", "backward", "optimizer"), results.compute)]
    ratios = []
    for one in results.measured:
        name, p50 = name_case(one.case), percentile(one.steps_ms, 50)
        figures += [_figure(name, "ms", one.steps_ms), _figure(name + ", bound", "ms",
                                                              [one.bound_ms]),
                    _figure(name + ", bytes", "bytes", [one.n_bytes])]
        ratios.append(_ratio(name + " / bound", p50, one.bound_ms))
        gain = find_gain(one, results.measured)
        if gain is not None:
            ratios.append(_ratio("%s / none" % name, p50, p50 * gain))
    output = {
        "schema": 1, "benchmark": "network", **results.about,
        "flags": {name: str(value) for name, value in sorted(vars(flags).items())},
        "figures": figures, "peers": [], "ratios": ratios}
    with open(flags.json, "w", encoding="utf-8") as file:
        json.dump(output, file)
