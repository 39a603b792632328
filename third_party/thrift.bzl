"""Libraries generated from Thrift IDL with Debian's compiler.

    load("@thriftps//third_party:thrift.bzl", "thrift_c_glib_library")

    thrift_c_glib_library(
        name = "weather_c_glib",
        srcs = ["units.thrift", "weather.thrift"],   # may include each other
        namespace = "FleetWeather",                  # `namespace c_glib` of all of them
        services = ["Station", "Forecast"],          # defined in any of them
    )

    tps_cc_library(..., deps = [":weather_c_glib"])  # #include "fleet_weather_station.h"

The names of the generated files follow from the namespace, the IDL files and the services. The
build fails if the compiler generates other files, and lists the differences.

Other workspaces load this file, too; they must call thriftps_repositories() of repositories.bzl
first.
"""

_THRIFT = attr.label(
    default = "@thriftps_thrift_compiler//:thrift",
    allow_single_file = True,
    cfg = "exec",
)

def _snake_case(name):
    """TpsWire -> tps_wire: every capital begins a word, as in the compiler."""
    words = "".join(["_" + char.lower() if char.isupper() else char for char in name.elems()])
    return words[1:] if words.startswith("_") else words

def _stem(src):
    return src.split("/")[-1].split(":")[-1][:-len(".thrift")]

# Arguments: $1 = compiler, $2 = generator, $3 = output folder, $4 = sed command for each file, then
# the IDL files, `--` and the expected file names. The files are generated in another folder and
# moved, so that no unexpected file appears.
_GENERATE = """
set -eu
thrift=$1 generator=$2 out=$3 edit=$4; shift 4
made=$(mktemp -d); trap 'rm -rf "$made"' EXIT
while [ "$1" != -- ]; do
  "$thrift" {includes} --gen "$generator" -out "$made" "$1"; shift
done; shift
# An IDL file without types makes no source of types in C++.
for file; do case $file in *_types.cpp) touch "$made/$file" ;; esac; done
expected=$(printf '%s\\n' "$@" | sort); got=$(cd "$made" && ls | sort)
if [ "$expected" != "$got" ]; then
  echo 'thrift made other files than the rule says; are namespace, services and constants right?' >&2
  echo '--- expected, +++ made' >&2
  diff -u <(echo "$expected") <(echo "$got") | tail -n +4 >&2
  exit 1
fi
for file; do sed -E "$edit" "$made/$file" > "$out/$file"; done
"""

def _include_flags(imports):
    folders = {file.dirname: None for file in imports}
    return " ".join(["-I '%s'" % folder for folder in folders])

def _generated_sources_impl(ctx):
    outputs = ctx.outputs.outs
    ctx.actions.run_shell(
        inputs = ctx.files.srcs + ctx.files.imports,
        outputs = outputs,
        command = _GENERATE.replace("{includes}", _include_flags(ctx.files.imports)),
        tools = [ctx.file._thrift],
        arguments = [ctx.file._thrift.path, ctx.attr.generator, outputs[0].dirname, ctx.attr.edit] +
                    [file.path for file in ctx.files.srcs] + ["--"] +
                    [file.basename for file in outputs],
        mnemonic = "Thrift",
        progress_message = "Generating {} from {} IDL files".format(ctx.attr.generator, len(ctx.files.srcs)),
    )

_generated_sources = rule(
    implementation = _generated_sources_impl,
    doc = "Runs the compiler; every file that it makes is an output with a label.",
    attrs = {
        "srcs": attr.label_list(allow_files = [".thrift"], mandatory = True),
        "imports": attr.label_list(allow_files = [".thrift"]),
        "generator": attr.string(mandatory = True),
        "edit": attr.string(default = "", doc = "sed -E command for every generated file."),
        "outs": attr.output_list(mandatory = True),
        "_thrift": _THRIFT,
    },
)

def _includes():
    # The folder of the root package would hide the system's <thrift/...>.
    return ["."] if native.package_name() else []

def thrift_c_glib_library(
        name,
        srcs,
        namespace,
        services = [],
        imports = [],
        deps = [],
        visibility = None,
        **kwargs):
    """A C library with the generated types, clients, handlers and processors of C GLib.

    Differences from the plain compiler:
      * Enums get global functions toString_<Enum>() without a prefix, which would clash with those
        of another library in the same program. Here they are <namespace>_toString_<Enum>().
      * The code is compiled without warnings, and its headers are system headers.

    Args:
      name: name of the cc_library.
      srcs: IDL files, in any order; they may include each other.
      namespace: their `namespace c_glib`, for example "TpsWire"; C GLib does not support dots.
      services: names of the services that they define.
      imports: IDL files of other packages that they include; their folders are searched.
      deps: thrift_c_glib_libraries of `imports`.
      visibility: as always.
      **kwargs: for cc_library.

    The headers are <namespace>_<file>_types.h and <namespace>_<service>.h, all in snake case.
    """
    prefix = _snake_case(namespace) + "_"
    stems = [prefix + _stem(src) + "_types" for src in srcs] + \
            [prefix + _snake_case(service) for service in services]
    sources = [stem + ".c" for stem in stems]
    headers = [stem + ".h" for stem in stems]
    _generated_sources(
        name = name + "_sources",
        srcs = srcs,
        imports = imports,
        generator = "c_glib",
        edit = "s/\\<toString_/{prefix}toString_/g; s/^(#ifndef .*_H)$/#pragma GCC system_header\\n\\1/".format(
            prefix = prefix,
        ),
        outs = sources + headers,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-w"],
        includes = _includes(),
        linkstatic = True,
        deps = deps + [str(Label("//third_party:thrift_c_glib"))],
        visibility = visibility,
        **kwargs
    )

def thrift_cpp_library(
        name,
        srcs,
        services = [],
        constants = [],
        imports = [],
        deps = [],
        visibility = None,
        **kwargs):
    """A C++ library with the generated types, clients and processors, for peers and tests.

    Args:
      name: name of the cc_library.
      srcs: IDL files, in any order; they may include each other.
      services: names of the services that they define.
      constants: those of `srcs` that define constants.
      imports: IDL files of other packages that they include; their folders are searched.
      deps: thrift_cpp_libraries of `imports`.
      visibility: as always.
      **kwargs: for cc_library.

    The headers are <file>_types.h and <Service>.h.
    """
    stems = [_stem(src) + "_types" for src in srcs] + services + \
            [_stem(src) + "_constants" for src in constants]
    sources = [stem + ".cpp" for stem in stems]
    headers = [stem + ".h" for stem in stems]
    _generated_sources(
        name = name + "_sources",
        srcs = srcs,
        imports = imports,
        generator = "cpp:no_skeleton",
        edit = "1s/^/#pragma GCC system_header\\n/",
        outs = sources + headers,
        visibility = ["//visibility:private"],
    )
    native.cc_library(
        name = name,
        srcs = sources,
        hdrs = headers,
        copts = ["-w"],
        includes = _includes(),
        linkstatic = True,
        deps = deps + [str(Label("//third_party:thrift_cpp"))],
        visibility = visibility,
        **kwargs
    )

def _thrift_py_library_impl(ctx):
    tree = ctx.actions.declare_directory(ctx.label.name)
    commands = ["mkdir -p '%s'" % tree.path] + [
        "{} {} --gen py -out '{}' '{}'".format(
            ctx.file._thrift.path,
            _include_flags(ctx.files.imports),
            tree.path,
            file.path,
        )
        for file in ctx.files.srcs
    ]
    ctx.actions.run_shell(
        inputs = ctx.files.srcs + ctx.files.imports,
        outputs = [tree],
        tools = [ctx.file._thrift],
        command = " && ".join(commands),
        mnemonic = "Thrift",
        progress_message = "Generating py from {} IDL files".format(len(ctx.files.srcs)),
    )
    return [
        DefaultInfo(files = depset([tree]), runfiles = ctx.runfiles(files = [tree])),
        PyInfo(
            transitive_sources = depset([tree]),
            imports = depset(["/".join([
                part
                for part in [
                    ctx.label.workspace_name or ctx.workspace_name,
                    ctx.label.package,
                    ctx.label.name,
                ]
                if part
            ])]),
        ),
    ]

thrift_py_library = rule(
    implementation = _thrift_py_library_impl,
    doc = """A folder, named like the target, with the generated Python packages.

As `deps` of a py_test or py_binary it is on sys.path. As `data` of another test it lies in the
runfiles under <package>/<name>, for PYTHONPATH. `thrift` itself is Debian's python3-thrift.""",
    attrs = {
        "srcs": attr.label_list(
            allow_files = [".thrift"],
            mandatory = True,
            doc = "IDL files, in any order; they may include each other.",
        ),
        "imports": attr.label_list(
            allow_files = [".thrift"],
            doc = "IDL files of other packages that they include; their folders are searched.",
        ),
        "_thrift": _THRIFT,
    },
)
