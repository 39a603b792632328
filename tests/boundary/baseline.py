#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
r"""Records the sizes and the interface of a commit, to compare them with those of a later one.

  ./bazelw build //plugin/app:thriftps_server //plugin/package:libthriftps.so \
      //plugin/package:include //thrift:py
  tests/boundary/baseline.py > record.json
  tests/boundary/baseline.py --compare tests/boundary/baseline.json      prints what is different

Lines are those of `wc -l` of tracked files. A circle is a set of files of one folder that call each
other's functions, by any way (a strongly connected component). Metrics are the families that a
server with all features exports.
"""

import argparse
import ast
import collections
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "tests", "lint"), os.path.join(ROOT, "tests", "polyglot")]

import include_law_test as law  # noqa: E402

C = (".c", ".h", ".cu", ".cuh")
SCRIPTS = (".cc", ".cpp", ".py", ".sh")
PRODUCT = ("plugin/", "runtime/", "cuda/")
TRAINERS = ("runtime/nn/", "runtime/trainer/")


def run(*command, **more):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
                          **more).stdout


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def list_files():
    return [path for path in run("git", "ls-files").splitlines()
            if os.path.isfile(os.path.join(ROOT, path))]


# ---- the sources --------------------------------------------------------------------------------


def count_lines(paths):
    return sum(read(path).count("\n") for path in paths)


def count_functions(text):
    """(all, public): bodies whose opening brace is in the first column, after parameters."""
    found = public = 0
    for match in re.finditer(r"^\{", text, re.MULTILINE):
        before = text[:match.start()].rstrip()
        if not before.endswith(")"):
            continue
        found += 1
        lines = re.split(r"\n\n|\n(?=#)|\*/\n", before)[-1].split("\n")
        names = [i for i, line in enumerate(lines) if re.match(r"\w+ \(", line)]
        public += not any("static" in line.split() for line in lines[:names[-1] + 1]) \
            if names else 0
    return found, public


def find_components(edges):
    """Strongly connected components of more than one node (Tarjan)."""
    index, low, stack, found = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(edges.get(node, ())):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = stack[stack.index(node):]
            del stack[stack.index(node):]
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(found)


def find_circles(sources):
    code = {path: law.COMMENT.sub("", text) for path, text in sources.items()}
    owner = {match.group(1): path for path, text in code.items()
             for match in law.DEFINITION.finditer(text)}
    edges = {path: {owner[name] for name in law.NAME.findall(text)
                    if owner.get(name, path) != path
                    and os.path.dirname(owner[name]) == os.path.dirname(path)}
             for path, text in code.items()}
    pairs = sum(path < other and path in edges[other]
                for path, called in edges.items() for other in called)
    return find_components(edges), pairs


def measure_sources():
    files = list_files()
    of = lambda folders, ends: [  # noqa: E731
        path for path in files if path.startswith(folders) and path.endswith(ends)]
    product, trainers = of(PRODUCT, C), of(TRAINERS, C)
    sources = {path: read(path) for path in product if path.endswith((".c", ".cu"))}
    in_c = {path: text for path, text in sources.items() if path.endswith(".c")}
    functions = [count_functions(text) for text in map(read, product)]
    circles, pairs = find_circles(in_c)
    return {
        "lines": {
            "product": count_lines(product),
            "product without trainers and nn": count_lines(product) - count_lines(trainers),
            "trainers and nn": count_lines(trainers),
            "bench": count_lines(of(("bench/",), C + SCRIPTS)),
            "tests": count_lines(of(("tests/",), C + SCRIPTS)),
        },
        "markdown_kib": round(sum(os.path.getsize(os.path.join(ROOT, path)) for path in files
                                  if path.endswith(".md")) / 1024),
        "files": len(product),
        "headers": sum(path.endswith((".h", ".cuh")) for path in product),
        "private_headers": sorted(path for path in product
                                  if path.endswith(("_private.h", "_internal.h"))),
        "c_files_without_header": sum(os.path.splitext(path)[0] + ".h" not in product
                                      for path in in_c),
        "functions": sum(each[0] for each in functions),
        "public_functions": sum(each[1] for each in functions),
        "circles_of_files": circles,
        "pairs_of_files_that_call_each_other": pairs,
    }


# ---- the interface ------------------------------------------------------------------------------


def measure_library(output):
    library = os.path.join(output, "plugin/package/libthriftps.so")
    symbols = [line.split()[-1].split("@")[0] for line in
               run("nm", "-D", "--defined-only", library).splitlines()]
    headers = [os.path.join(parent, name)
               for parent, _, names in os.walk(os.path.join(output, "plugin/package/include"))
               for name in names if name.endswith(".h")]
    return {"exported_symbols": len(symbols), "public_headers": len(headers)}


ACCESS = """{"rules": [{"principals": ["*"], "rights": ["read", "push", "admin"], "tables": ["*"],
                       "tenant": "all"}], "tenants": {"all": {"calls_per_s": 1000000}}}"""


def call_tables(address):
    """A table, a push, a lookup and a failed call, so that their families have samples."""
    from peers import Client, sparse, tensor
    from thriftps.embedding_table import EmbeddingTable
    from thriftps.embedding_table.ttypes import TableSpec
    from thriftps.node.ttypes import ServiceError
    from thriftps.tensor.ttypes import DType
    with Client(address, EmbeddingTable) as calls:
        calls.create_table(TableSpec("table", 4, 2, DType.FLOAT32))
        calls.apply_row_gradients("table", sparse([1], [1.0, 2.0], 4, 2).sparse, None)
        for name in ("table", "none"):
            try:
                calls.lookup_rows(name, tensor([1], dtype=DType.INT64))
            except ServiceError:
                pass


def list_metrics(output, server):
    """The families of a server with a data directory, rules, TLS and a collector of spans."""
    sys.path.insert(0, os.path.join(output, "thrift", "py"))
    from server_process import Server
    os.environ["THRIFTPS_SERVER"] = server
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)  # noqa: E731
        for name, text in (("access", ACCESS), ("tokens", "")):
            with open(path(name), "w", encoding="utf-8") as file:
                file.write(text)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost", "-keyout",
                        path("key"), "-out", path("certificate")], check=True,
                       stderr=subprocess.DEVNULL)
        with Server("--data-dir=" + path("data"), "--log-segment-mib=1",
                    "--access-file=" + path("access"), "--token-file=" + path("tokens"),
                    "--tls=allowed", "--tls-cert=" + path("certificate"),
                    "--tls-key=" + path("key"), "--otlp=http://127.0.0.1:9",
                    "--http=127.0.0.1:0") as process:
            line = process.process.stdout.readline()
            call_tables(process.address)
            connection = http.client.HTTPConnection(line.rpartition("//")[2].strip(), timeout=60)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
    return sorted(set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)))


def measure_server(output):
    server = os.path.join(output, "plugin/app/thriftps_server")
    return {
        "options": re.findall(r"^\| `--([\w-]+)", run(server, "--help-markdown"), re.MULTILINE),
        "metrics": list_metrics(output, server),
        "values_of_the_machine": [line.split()[0]
                                  for line in run(server, "--tuning").splitlines()[1:]],
    }


# ---- tests and benchmarks -----------------------------------------------------------------------


def measure_tests(public):
    """The tests of //tests:boundary, and the headers of the product that their folders include
    although they are not public."""
    labels = sorted(run("./bazelw", "query", "tests(//tests:boundary)",
                        stderr=subprocess.DEVNULL).split())
    folders = sorted({label[2:].split(":")[0] for label in labels})
    included = collections.Counter()
    for folder in folders:
        for name in os.listdir(os.path.join(ROOT, folder)):
            if name.endswith((".c", ".cc", ".h")):
                text = read(os.path.join(folder, name))
                included[folder] += len({header for _, header in law.INCLUDE.findall(text)
                                         if header.startswith(PRODUCT) and header not in public})
    return {"boundary_tests": len(labels),
            "includes_of_internal_headers_by_folder": {folder: n for folder, n in included.items()
                                                       if n}}


def list_benchmarks():
    """The commands of bench/compare --all; those of --quick come first."""
    tree = ast.parse(read("bench/compare"))
    values = {node.targets[0].id: node.value for node in tree.body
              if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}

    def text(node):
        if isinstance(node, ast.BinOp):
            return text(node.left) + text(node.right)
        if isinstance(node, ast.Name):
            return text(values[node.id])
        return node.value

    found = [[" ".join((text(each.args[0]) + " " + text(each.args[1])).split()),
              text(each.args[3]), text(each.args[2]) is not None]
             for each in values["ALL"].elts]
    return [{"command": command, "figures": figures, "quick": quick}
            for command, figures, quick in found]


# ---- all ----------------------------------------------------------------------------------------


def measure(output):
    headers = os.path.join(output, "plugin/package/include/thriftps")
    public = {os.path.relpath(os.path.join(parent, name), headers)
              for parent, _, names in os.walk(headers) for name in names}
    return dict({"commit": run("git", "rev-parse", "--short=8", "HEAD").strip()},
                **measure_sources(), **measure_library(output), **measure_server(output),
                **measure_tests(public), benchmarks=list_benchmarks())


def compare(old, new):
    """Prints the differences, one a line."""
    for key in old:
        before, after = old[key], new.get(key)
        if isinstance(before, list) and before and isinstance(before[0], str):
            gone, come = sorted(set(before) - set(after)), sorted(set(after) - set(before))
            print("%s: %d -> %d%s%s" % (key, len(before), len(after),
                                        "; gone: " + ", ".join(gone) if gone else "",
                                        "; new: " + ", ".join(come) if come else ""))
        elif isinstance(before, list):
            print("%s: %d -> %d" % (key, len(before), len(after)))
        elif isinstance(before, dict):
            for name in before:
                print("%s, %s: %s -> %s" % (key, name, before[name], after.get(name)))
        else:
            print("%s: %s -> %s" % (key, before, after))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default=os.path.join(ROOT, "bazel-bin"),
                        help="folder of the built targets")
    parser.add_argument("--compare", metavar="RECORD", help="an earlier record")
    arguments = parser.parse_args()
    found = measure(os.path.abspath(arguments.output))
    if arguments.compare:
        with open(arguments.compare, encoding="utf-8") as file:
            compare(json.load(file), found)
    else:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
