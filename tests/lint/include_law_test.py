"""The allowed directions of includes and of BUILD files, and three related rules.

    bench --> plugin --> thrift (generated)
                |
                v
              runtime <-- cuda            tests may include anything, nothing includes them

Within these trees every folder has a layer (LAYERS): it includes lower layers only, so there are no
cycles between folders. Targets are private, or name the packages that may use them; only the API is
public.

Angle brackets are for others' headers, quotes for ours, from the root of the tree
("runtime/tensor/tensor.h"). A .c file must include its own header first, which proves that
the header is self-contained. The public headers (plugin/include) are an exception: everybody
includes them as <thriftps/...>, and they are below all folders. Locks must be ours
(runtime/base/sync.h), because GLib's are invisible to the thread sanitizer. Thrift's field numbers
are in the descriptors of plugin/wire only.
"""

import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
FOLDERS = ("runtime", "plugin", "cuda", "bench", "tests", "thrift", "third_party")
SOURCES = (".c", ".cc", ".cu")
HEADERS = (".h", ".cuh")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)

GENERATED = r'"(thrift/)?tps_wire_'
THRIFT = r"<thrift/|" + GENERATED
GOBJECT = r"<glib-object\.h|<gobject/|<gio/|<gmodule\.h|<json-glib/"
SOCKET = (r"<sys/(socket|un|epoll|sendfile)\.h|<netinet/|<arpa/|<netdb\.h|<net/|<poll\.h|"
          r"<sys/poll\.h")
CUDA = r"<cuda|<cublas|<nccl|<cub/|<thrust/"
TESTS = r'"tests/|<gtest/|<gmock/'

# Folder: (forbidden includes, reason). The includes are matched as they are written.
LAW = {
    "runtime": (
        (r'"(plugin|bench|cuda)/', "runtime/ is below everything"),
        (THRIFT, "runtime/ does not know Thrift"),
        (GOBJECT, "runtime/ uses the core of GLib only"),
        (SOCKET, "runtime/ has no sockets"),
        (CUDA, "CUDA lives in cuda/"),
        (TESTS, "nothing includes tests/"),
        (r"<thriftps/(?!(error|tensor|tables|client|service)\.h)", "runtime/ does not know Thrift"),
    ),
    "plugin/include": (
        (r'"|<(?!glib\.h|thriftps/|thrift/c_glib/)',
         "public headers include GLib, Thrift and each other"),
    ),
    "plugin/trainer": (
        (r'"(?!plugin/(trainer/|app/thriftps_server\.h|service/methods\.h|wire/wire_)|'
         r"runtime/trainer/)", "the Trainer service uses public headers and generated code"),
    ),
    "plugin/examples": ((r'"(plugin|runtime|cuda|bench)/', "examples use public headers"),),
    "runtime/trainer": ((r'"runtime/server/(averaging|model|tables)/',
                         "trainers reach servers through thriftps/client.h and runtime/ports"),),
    "plugin": (
        (r'"(bench|cuda)/', "plugin/ knows thrift/ and runtime/ only"),
        (CUDA, "CUDA lives in cuda/"),
        (r"<cblas\.h|<gloo/", "arithmetic and collectives live in runtime/"),
        (TESTS, "nothing includes tests/"),
    ),
    "plugin/python/native": (
        (r'"(?!plugin/python/native/|plugin/wire/wire_\w+\.h)',
         "the Python library includes public headers and generated descriptors"),
    ),
    "cuda": (
        (r'"(plugin|bench)/', "cuda/ knows runtime/ only"),
        (THRIFT, "cuda/ does not know Thrift"),
        (GOBJECT, "cuda/ has no GLib objects"),
        (TESTS, "nothing includes tests/"),
    ),
    "bench": (
        (r'"plugin/(net|frame|wire|service)/', "bench/ uses no private headers"),
        (r'"cuda/', "bench/ reaches CUDA through the runtime's backends"),
        (TESTS, "nothing includes tests/"),
    ),
    "third_party": ((r'"(runtime|plugin|cuda|bench|thrift|tests)/',
                     "third_party/ holds no project code"),),
    "tests": (),
    "thrift": ((r"", "thrift/ holds no hand-written C"),),
}

# The lowest layer is first. A folder may include only folders of lower layers, not folders of its
# own layer.
LAYERS = (
    "runtime/machine",
    "runtime/base",
    "runtime/tensor",
    "runtime/device",
    "runtime/device/cpu/kernels",
    "runtime/device/cpu/optimizer",
    "runtime/device/cpu",
    "runtime/device/find",
    "runtime/embedding",
    "runtime/ports",
    "runtime/server",
    "runtime/server/quota",
    "runtime/server/log",
    "runtime/server/averaging runtime/server/model runtime/server/tables/device",
    "runtime/server/tables/host",
    "runtime/server/tables",
    "runtime/server/snapshot",
    "runtime/server/durable",
    "runtime/trainer/dense",
    "runtime/trainer/nn",
    "runtime/trainer/ports",
    "runtime/trainer/compress runtime/trainer/group runtime/trainer/hooks "
    "runtime/trainer/table_steps",
    "runtime/trainer/buckets runtime/trainer/group/gloo",
    "runtime/trainer/ddp",
    "runtime/trainer/pass",
    "runtime/trainer/batch_update runtime/trainer/ddp_rpc",
    "runtime/trainer/parts",
    "cuda/kernels",
    "cuda/optimizer cuda/device",
    "cuda/group",
    "cuda",
    "plugin/access plugin/frame plugin/http/console plugin/tracing",
    "plugin/tracing/otlp",
    "plugin/memory plugin/net",
    "plugin/net/tls plugin/wire",
    "plugin/chunks plugin/service",
    "plugin/service/chunks plugin/host plugin/client",
    "plugin/server plugin/client/tables",
    "plugin plugin/python/native",
    "plugin/http plugin/glib",
    "plugin/app",
    "plugin/trainer",
    "bench/process bench/report bench/zipf",
    "bench/engine bench/served",
    "bench/world",
    "bench/all_reduce bench/batch_update bench/ddp_rpc bench/dlrm bench/durability "
    "bench/gpu_bundle bench/lookup bench/metrics bench/operations bench/parameter_server "
    "bench/python bench/tenants",
    "bench/network",
    "bench/transfer/system",
    "bench/transfer/limits bench/peers/thrift",
    "bench/transfer/calls bench/transfer/tls",
    "bench/transfer/figures",
    "bench/transfer",
)
LAYER_OF = {folder: layer for layer, folders in enumerate(LAYERS) for folder in folders.split()}

# Packages in which targets may be public.
PUBLIC_PACKAGES = ("plugin", "plugin/client", "plugin/glib", "plugin/http", "plugin/net/tls",
                   "plugin/python", "cuda", "thrift", "third_party")
# Programs of users, which include each other's headers by their names.
EXAMPLES = "plugin/examples/"
EVERYBODY = re.compile(r'"//(:__subpackages__|visibility:public)"')

# Folders whose files still include each other in cycles. This list must only become shorter.
FILE_CIRCLES = ()

DEFINITION = re.compile(r"^(tps_\w+) \(", re.MULTILINE)
NAME = re.compile(r"\btps_\w+")

GLIB_LOCKS = re.compile(
    r"\b(GMutex|GRecMutex|GRWLock|GCond|GAsyncQueue|GThreadPool|g_(mutex|rec_mutex|rw_lock|cond|"
    r"async_queue|thread_pool)_\w+)\b"
)
TRAINER = '"runtime/trainer/'
# Folders outside of runtime/trainer that may include it: the trainer programs, and the collectives
# of the device library. No server, client or public header may.
KNOWS_TRAINERS = ("runtime/trainer/", "plugin/trainer/", "cuda/group/", "bench/", "tests/")

OWN_LOCKS = ("runtime", "plugin", "cuda")

WRITES_FIELD = re.compile(r"\btps_writer_field \(")
PRODUCT = ("runtime", "plugin", "cuda", "bench")
# The writer itself, the encoder of descriptors, and the protocol of generated code may write
# fields.
FIELD_WRITERS = ("plugin/frame/writer.h", "plugin/frame/writer.c",
                 "plugin/wire/descriptor.h", "plugin/host/protocol.c")


def folder_of(path):
    return path.split("/", 1)[0]


def laws_of(path):
    for folder, laws in LAW.items():
        if path.startswith(folder + "/"):
            yield from laws


def check_layers(folder, included):
    """The violation of an include from one folder of ours into another, or None."""
    if folder == included or folder_of(folder) == "tests":
        return None
    for each in (folder, included):
        if each not in LAYER_OF and folder_of(each) in ("runtime", "cuda", "plugin", "bench"):
            return "%s has no layer: give it one in tests/lint/include_law_test.py" % each
    if LAYER_OF.get(included, -1) < LAYER_OF[folder]:
        return None
    return "%s is not below %s (LAYERS in tests/lint/include_law_test.py)" % (included, folder)


def find_cycle(edges):
    """A list of folders, each of which includes the next and the last the first; None if there is
    no cycle."""
    state = {}

    def visit(folder, path):
        state[folder] = "open"
        for each in sorted(edges.get(folder, ())):
            if state.get(each) == "open":
                return path[path.index(each):] if each in path else [each]
            found = visit(each, path + [each]) if each not in state else None
            if found:
                return found
        state[folder] = "done"
        return None

    for folder in sorted(edges):
        found = visit(folder, [folder]) if folder not in state else None
        if found:
            return found
    return None


def find_file_circle(sources):
    """A list of files of one folder, each of which calls a function of the next; None if there is
    no cycle. Headers do not matter: one header may declare the functions of several files.
    `sources`: text by name."""
    code = {name: COMMENT.sub("", text) for name, text in sources.items()}
    owner = {match.group(1): name for name, text in code.items()
             for match in DEFINITION.finditer(text)}
    return find_cycle({name: {owner[each] for each in NAME.findall(text)
                              if owner.get(each, name) != name}
                       for name, text in code.items()})


def find_open_targets(package, text):
    """Yields the violations of visibility in a BUILD file."""
    if package.split("/")[0] == "third_party" or package in PUBLIC_PACKAGES:
        return
    for match in EVERYBODY.finditer(text):
        yield "%s/BUILD:%d" % (package, text.count("\n", 0, match.start()) + 1), \
            "%s: name the packages that may use it (//runtime:internal, //plugin:users, ...)" \
            % match.group()


def own_header(path, exists):
    """The header that belongs to a source file, or None."""
    stem, extension = os.path.splitext(path)
    if extension not in SOURCES:
        return None
    return next((stem + header for header in HEADERS if exists(stem + header)), None)


def find_violations(path, text, exists):
    """Yields (path:line, violation). `exists` tells whether a path of the tree is a file."""
    folder = folder_of(path)
    includes = list(INCLUDE.finditer(text))
    for match in includes:
        where = "%s:%d" % (path, text.count("\n", 0, match.start()) + 1)
        opening, name = match.groups()
        written = opening + name
        for pattern, reason in laws_of(path):
            if re.match(pattern, written):
                yield where, "includes %s: %s" % (name, reason)
        if written.startswith(TRAINER) and not path.startswith(KNOWS_TRAINERS):
            yield where, "includes %s: servers and clients do not know trainers" % name
        if opening == '"' and exists(name):
            wrong = check_layers(os.path.dirname(path), os.path.dirname(name))
            if wrong:
                yield where, "includes %s: %s" % (name, wrong)
        if opening == "<" and folder_of(name) in FOLDERS and exists(name):
            yield where, "includes <%s>: ours are included with quotes" % name
        # Tests and peers also include headers that Thrift generates for C++. The names of these
        # headers have no folder.
        if opening == '"' and "/" not in name and not re.match(GENERATED, written) \
                and folder not in ("tests", "bench", "third_party") \
                and not path.startswith(EXAMPLES):
            yield where, \
                'includes "%s": others are included with angle brackets, ours from the root' % name

    header = own_header(path, exists)
    if header and not path.startswith(EXAMPLES) \
            and (not includes or includes[0].group(2) != header):
        yield path, "must include its own header first: %s" % header

    if folder in OWN_LOCKS:
        # Comments become empty lines, so that line numbers stay correct.
        code = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
        for match in GLIB_LOCKS.finditer(code):
            yield "%s:%d" % (path, code.count("\n", 0, match.start()) + 1), \
                "%s: locks are those of runtime/base/sync.h" % match.group()


def find_field_writers(path, text):
    """Yields the calls that encode a field without a descriptor."""
    if folder_of(path) not in PRODUCT or path in FIELD_WRITERS:
        return
    code = COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    for match in WRITES_FIELD.finditer(code):
        yield "%s:%d" % (path, code.count("\n", 0, match.start()) + 1), \
            "writes a field by its number: use a descriptor (plugin/wire/descriptor.h)"


def tree_files():
    for folder in FOLDERS:
        for parent, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith(SOURCES + HEADERS):
                    yield os.path.relpath(os.path.join(parent, name), ROOT)


# (path of the includer, refused lines, allowed lines)
EXAMPLES_OF_LAWS = (
    ("runtime/a.c",
     ('"plugin/server/server.h"', '"bench/flags.h"', '"cuda/device.h"', "<thrift/c_glib/thrift.h>",
      '"tps_wire_node.h"', '"thrift/tps_wire_node.h"', "<glib-object.h>", "<gio/gio.h>",
      "<sys/socket.h>", "<cuda_runtime.h>", '"tests/common/clock.h"', "<gtest/gtest.h>",
      "<thriftps/plugin.h>"),
     ('"runtime/tensor/tensor.h"', "<glib.h>", "<cblas.h>", "<gloo/allreduce.h>", "<pthread.h>",
      "<thriftps/error.h>")),
    ("plugin/trainer/a.c", ('"plugin/service/call.h"',),
     ("<thriftps/service.h>", '"plugin/wire/wire_trainer.h"')),
    ("plugin/examples/a.c", ('"plugin/service/call.h"',), ("<thriftps/service.h>", '"a.h"')),
    ("plugin/net/a.c", ('"bench/flags.h"', "<cuda_runtime.h>", '"glib.h"'),
     ('"runtime/base/sync.h"', "<sys/epoll.h>", '"tps_wire_node.h"', "<glib-object.h>",
      "<thrift/c_glib/thrift.h>")),
    ("plugin/python/native/a.c",
     ('"runtime/base/sync.h"', '"plugin/client/client.h"', '"plugin/wire/descriptor.h"'),
     ("<thriftps/client.h>", '"plugin/wire/wire_node.h"', '"plugin/python/native/b.h"')),
    ("cuda/kernels/a.cu", ("<thrift/c_glib/thrift.h>", '"plugin/client/client.h"'),
     ('"runtime/device/backend.h"', "<cuda_runtime.h>")),
    ("bench/a.c", tuple('"plugin/%s/b.h"' % private for private in
                        ("net", "frame", "wire", "service")),
     ('"plugin/client/client.h"', '"ParameterServer.h"')),
    ("plugin/include/thriftps/a.h",
     ('"runtime/tensor/tensor.h"', '"thriftps/error.h"', "<stdint.h>"),
     ("<glib.h>", "<thriftps/error.h>")),
    *((path, ('"runtime/trainer/pass/trainer.h"',), ()) for path in
      ("runtime/server/model/a.c", "runtime/device/a.h", "plugin/client/a.h", "plugin/plugin.h",
       "plugin/app/a.c", "cuda/device/a.c")),
    *((path, (), ('"runtime/trainer/pass/trainer.h"',)) for path in
      ("runtime/trainer/parts/a.c", "plugin/trainer/a.c", "cuda/group/a.c", "bench/world/a.c",
       "tests/runtime/a.cc")),
    ("runtime/trainer/pass/b.c", ('"runtime/server/model/a.h"',), ()),
)


class IncludeLaw(unittest.TestCase):
    """Tests of the rules themselves: each rule must refuse a violation and accept correct code."""

    def count(self, path, text, files=()):
        return len(list(find_violations(path, text, lambda name: name in files)))

    def test_laws(self):
        for path, refused, allowed in EXAMPLES_OF_LAWS:
            for lines, n in ((refused, 1), (allowed, 0)):
                for line in lines:
                    self.assertEqual(self.count(path, "#include %s\n" % line), n, (path, line))

    def test_files_and_locks(self):
        files = {"runtime/base/a.h", "runtime/tensor/a.h", "runtime/new/a.h", "plugin/net/a.h",
                 "plugin/memory/a.h", "runtime/own.h"}
        for path, text, n in (
                ("plugin/a.c", "#include <runtime/tensor/a.h>\n", 1),
                ("runtime/own.c", '#include <glib.h>\n#include "runtime/own.h"\n', 1),
                ("runtime/own.c", '/* a */\n#include "runtime/own.h"\n#include <glib.h>\n', 0),
                ("runtime/a.c", "static GMutex lock;\n", 1),
                ("plugin/a.c", "g_mutex_lock (&self->lock);\n", 1),
                ("runtime/a.c", "/* not GMutex */\nstatic TpsMutex lock;\n", 0),
                ("runtime/tensor/b.c", '#include "runtime/base/a.h"\n', 0),
                ("runtime/base/b.c", '#include "runtime/tensor/a.h"\n', 1),
                ("runtime/tensor/b.c", '#include "runtime/new/a.h"\n', 1),
                ("plugin/net/b.c", '#include "plugin/memory/a.h"\n', 1)):
            self.assertEqual(self.count(path, text, files), n, (path, text))

    def test_cycles(self):
        self.assertIsNone(find_cycle({"a": {"b", "c"}, "b": {"c"}}))
        self.assertEqual(find_cycle({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}}),
                         ["b", "c", "d"])

    def test_file_circles(self):
        above = "void\ntps_above (void)\n{\n  tps_below (1);\n}\n"
        below = "void\ntps_below (int i)\n{\n  /* not tps_above () */%s\n}\n"
        self.assertIsNone(find_file_circle({"above.c": above, "below.c": below % ""}))
        self.assertEqual(find_file_circle({"above.c": above, "below.c": below % "tps_above ();"}),
                         ["above.c", "below.c"])

    def test_visibility(self):
        self.assertEqual(list(find_open_targets("runtime/base",
                                                'visibility = ["//runtime:users"]')), [])
        self.assertEqual(list(find_open_targets("plugin", '"//visibility:public"')), [])
        for text in ('visibility = ["//visibility:public"]',
                     'visibility = [\n"//:__subpackages__"\n]'):
            self.assertEqual(len(list(find_open_targets("runtime/base", text))), 1)


    def test_field_numbers(self):
        call = "  tps_writer_field (out, 1, TPS_WIRE_I32);\n"
        for path, n in (("plugin/client/a.c", 1), ("bench/a.c", 1), ("plugin/wire/a.c", 1),
                        ("plugin/wire/descriptor.h", 0), ("tests/a.cc", 0)):
            self.assertEqual(len(list(find_field_writers(path, call))), n, path)
        self.assertEqual(list(find_field_writers("plugin/a.c", "/* tps_writer_field () */")), [])


class Tree(unittest.TestCase):
    """The tree as it is."""

    def test_cycles(self):
        """Cycles of the includes themselves, independent of LAYERS; tests have no layers."""
        files = set(tree_files())
        edges = {}
        for path in files:
            with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                included = {os.path.dirname(match.group(2))
                            for match in INCLUDE.finditer(source.read())
                            if match.group(1) == '"' and match.group(2) in files}
            folder = os.path.dirname(path)
            edges.setdefault(folder, set()).update(
                each for each in included if each != folder)
        self.assertIsNone(find_cycle(edges))
        folders = {os.path.dirname(path) for path in files}
        self.assertEqual(set(LAYER_OF) - folders, set(), "LAYERS names folders that are gone")

    def test_file_circles(self):
        folders = {}
        for path in tree_files():
            folder, name = os.path.split(path)
            if name.endswith(".c") and folder_of(path) != "tests":
                with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                    folders.setdefault(folder, {})[name] = source.read()
        circles = {folder: find_file_circle(sources) for folder, sources in folders.items()}
        found = {folder: circle for folder, circle in circles.items() if circle}
        self.assertEqual({folder: found[folder] for folder in set(found) - set(FILE_CIRCLES)}, {})
        self.assertEqual(set(FILE_CIRCLES) - set(found), set(),
                         "FILE_CIRCLES names folders without circles")

    def test_visibility(self):
        found = []
        for folder in FOLDERS:
            for parent, _, names in os.walk(os.path.join(ROOT, folder)):
                if "BUILD" in names:
                    package = os.path.relpath(parent, ROOT)
                    with open(os.path.join(parent, "BUILD"), encoding="utf-8") as build:
                        found += ["%s: %s" % hit
                                  for hit in find_open_targets(package, build.read())]
        self.assertEqual(found, [])

    def test_tree(self):
        files = set(tree_files())
        self.assertTrue(files, "no source files under " + ROOT)
        found = []
        for path in sorted(files):
            with open(os.path.join(ROOT, path), encoding="utf-8") as source:
                text = source.read()
            found += ["%s: %s" % hit for hit in (*find_violations(path, text, files.__contains__),
                                                 *find_field_writers(path, text))]
        if found:
            self.fail("%d violations\n%s" % (len(found), "\n".join(found)))


if __name__ == "__main__":
    unittest.main()
