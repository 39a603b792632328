#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Counts what a call passes between the readiness of its socket and the runtime (needs gdb).

  ./bazelw build //plugin/app:thriftps_server //thrift:py
  tests/boundary/call_path.py [--list]

Sends ParameterServer.average_gradient, of the only trainer, and EmbeddingTable.lookup_bags to a
server in which gdb stops at the beginning of every function. Counted is what runs from the return
of epoll_wait() to the first function of runtime/server/averaging or runtime/server/tables, on the
thread of the connection and on that of the worker:

  functions, files   that run; the compiler has inlined some small functions of their own
                     file
  climbs             calls of a function of a higher layer (LAYERS of
                     tests/lint/include_law_test.py) by one of a lower layer, which are calls
                     through pointers

Timers that are due at the same time, and other threads, are left out.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SOURCE = re.compile(r"(?:^|/)((?:plugin|runtime)/[^:]*\.[ch])$")
TARGETS = {"average_gradient": "runtime/server/averaging/", "lookup_bags": "runtime/server/tables/"}


def is_timer(name):
    """Whether the loop calls this function because a time has come, and not because of a call."""
    return "timer" in (name or "")


# ---- inside of gdb ------------------------------------------------------------------------------


def record_calls(target, ready, output):
    """Records [thread, function, file, caller, file of the caller] of every function that begins,
    until one of `target` does."""
    import gdb
    calls = []

    def file_of(pc):
        table = gdb.find_pc_line(pc).symtab
        match = SOURCE.search(table.filename) if table else None
        return match.group(1) if match else None

    class Entry(gdb.Breakpoint):

        def stop(self):
            frame = gdb.newest_frame()
            name, file, callers = frame.name(), file_of(frame.pc()), []
            while frame.older() is not None and len(callers) < 40:
                frame = frame.older()
                callers.append((frame.name(), file_of(frame.pc() - 1)))
            # Not functions of GLib that call back.
            callers = [caller for caller in callers if caller[1]]
            if not any(is_timer(caller) for caller, _ in callers):
                calls.append([gdb.selected_thread().num, name, file,
                              *(callers[0] if callers else (None, None))])
            return file.startswith(target)

    gdb.execute("set breakpoint always-inserted on")
    base = int(os.environ["CALL_PATH_BASE"])
    with open(os.environ["CALL_PATH_FUNCTIONS"], encoding="ascii") as file:
        for address in file.read().split():
            Entry("*0x%x" % (base + int(address, 16)), internal=True)
    open(ready, "w").close()
    gdb.execute("continue")
    with open(output, "w", encoding="utf-8") as file:
        json.dump(calls, file)
    gdb.execute("delete")
    gdb.execute("detach")


# ---- outside ------------------------------------------------------------------------------------


def list_functions(program):
    """The addresses of the functions of the product, in hexadecimal digits."""
    symbols = [line.split() for line in subprocess.run(
        ["nm", "--defined-only", program], stdout=subprocess.PIPE, text=True,
        check=True).stdout.splitlines()]
    addresses = sorted({fields[0] for fields in symbols
                        if fields[1] in "tT" and ".cold" not in fields[2]})
    lines = subprocess.run(["addr2line", "-e", program], input="\n".join(addresses), text=True,
                           stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return [address for address, line in zip(addresses, lines)
            if SOURCE.search(line.rpartition(":")[0])]


def find_base(pid, program):
    with open("/proc/%d/maps" % pid, encoding="ascii") as maps:
        return min(int(line.split("-")[0], 16) for line in maps
                   if line.rstrip().endswith(os.path.realpath(program)))


def trace(process, program, target, call, folder):
    """The calls of the server while it executes `call`."""
    functions, ready, output = (os.path.join(folder, name)
                                for name in ("functions", "ready", "output"))
    with open(functions, "w", encoding="ascii") as file:
        file.write("\n".join(list_functions(program)))

    def send():
        while not os.path.exists(ready):
            time.sleep(0.05)
        time.sleep(0.5)  # gdb continues the server
        call()

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    code = "sys.path.insert(0, %r); import call_path; call_path.record_calls(%r, %r, %r)" % (
        HERE, target, ready, output)
    subprocess.run(
        ["gdb", "-batch", "-nx", "-p", str(process.pid), "-ex", "set debuginfod enabled off",
         "-ex", "python import sys; " + code],
        env=dict(os.environ, CALL_PATH_BASE=str(find_base(process.pid, program)),
                 CALL_PATH_FUNCTIONS=functions, PYTHONDONTWRITEBYTECODE="1"),
        check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sender.join()
    with open(output, encoding="utf-8") as file:
        calls = json.load(file)
    for path in (ready, output):
        os.remove(path)
    return calls


def select_path(calls):
    """The calls between readiness and the runtime: on the thread that receives the message, and on
    the thread that calls the runtime."""
    begin = next(i for i, call in enumerate(calls)
                 if call[2].startswith("plugin/net/connection"))
    threads = {calls[begin][0], calls[-1][0]}
    return [call for call in calls[begin:] if call[0] in threads and not is_timer(call[1])]


def measure(calls, layers):
    calls = select_path(calls)

    def layer(file):
        return layers.get(os.path.dirname(file), -1)

    climbs = ["%s (%s) calls %s (%s)" % (caller, caller_file, name, file)
              for _, name, file, caller, caller_file in calls
              if caller_file and layer(file) > layer(caller_file)]
    return {"functions": len({(name, file) for _, name, file, _, _ in calls}),
            "calls": len(calls),
            "files": sorted({file for _, _, file, _, _ in calls}),
            "climbs": climbs}


def run(output):
    sys.path[:0] = [os.path.join(ROOT, "tests", "lint"), os.path.join(ROOT, "tests", "polyglot"),
                    os.path.join(output, "thrift", "py")]
    import include_law_test as law
    from peers import Client, Server, dense, tensor
    from thriftps.embedding_table import EmbeddingTable
    from thriftps.embedding_table.ttypes import BagQuery, Pooling, TableSpec
    from thriftps.parameter_server import ParameterServer
    from thriftps.tensor.ttypes import DType

    program = os.path.realpath(os.path.join(output, "plugin/app/thriftps_server"))
    os.environ["THRIFTPS_SERVER"] = program
    found = {}
    with tempfile.TemporaryDirectory() as folder, Server("--ntrainer=1") as server, \
            Client(server.address, EmbeddingTable) as tables, \
            Client(server.address, ParameterServer) as trainers:
        tables.create_table(TableSpec("t", 16, 4, DType.FLOAT32))
        query = BagQuery("t", tensor([1, 2], dtype=DType.INT64), tensor([0], dtype=DType.INT64),
                         Pooling.SUM)
        calls = {
            "average_gradient": lambda i: trainers.average_gradient(0, i, 0, dense([1.0, 2.0])),
            "lookup_bags": lambda i: tables.lookup_bags([query]),
        }
        for name, call in calls.items():
            for i in range(3):  # the first calls also allocate what later ones reuse
                call(i)
            found[name] = measure(trace(server.process, program, TARGETS[name],
                                        lambda call=call: call(3), folder), law.LAYER_OF)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.path.join(ROOT, "bazel-bin"),
                        help="folder of the built targets")
    parser.add_argument("--list", action="store_true", help="print files and calls as JSON")
    arguments = parser.parse_args()
    found = run(os.path.abspath(arguments.output))
    if arguments.list:
        print(json.dumps(found, indent=1))
    else:
        for name, path in found.items():
            print("%s: %d functions in %d files, %d climbs" % (
                name, path["functions"], len(path["files"]), len(path["climbs"])))


if __name__ == "__main__":
    main()
