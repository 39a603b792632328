"""Rules for CUDA: .cu files are compiled by nvcc, all other files as usual as C or C++.

    cuda_library(
        name = "accumulate",
        srcs = ["accumulate.cu"],
        hdrs = ["accumulate.h"],
        deps = ["//runtime/base:core", "//runtime/tensor"],
    )

makes the library, `NAME_resources`: the output of `ptxas -v` for each kernel (registers, spills,
shared memory), and `NAME_ptx`: the PTX of each source for the last generation. Without
--config=cuda, `//...` skips the targets, and Bazel reports an error if one is named.
"""

load("//third_party:tps.bzl", "tps_cc_binary", "tps_cc_library")

CUDA_ONLY = select({
    "//third_party/cuda:enabled": [],
    "//conditions:default": ["//third_party/cuda:needs_config_cuda"],
})

# Selected only with --config=cuda, so that other builds do not fetch a toolkit.
_TOOLKIT = select({
    "//third_party/cuda:enabled": "@thriftps_cuda//:toolkit",
    "//conditions:default": "//third_party/cuda:no_toolkit",
})

# The compiler for nvcc's host code. With --config=hermetic, it is that of the packages, otherwise
# nvcc chooses.
_HOST_COMPILER = select({
    "//third_party/hermetic:enabled": ["@thriftps_sysroot//:tools"],
    "//conditions:default": [],
})

# The generations that get machine code. Later generations use the PTX of the last one.
_GENERATIONS = select({
    "//third_party/cuda:all_generations": ["75", "80", "86", "89", "90", "100", "120"],
    "//conditions:default": ["90"],
})

CudaToolkitInfo = provider(fields = {
    "root": "absolute path of the folder with bin/nvcc",
    "release": "version of nvcc; part of each action's key",
})

def _cuda_toolkit_impl(ctx):
    return [CudaToolkitInfo(root = ctx.attr.root, release = ctx.attr.release)]

cuda_toolkit = rule(
    implementation = _cuda_toolkit_impl,
    attrs = {
        "root": attr.string(mandatory = True),
        "release": attr.string(mandatory = True),
    },
)

_NVCC_OPTIONS = [
    "-std=c++17",
    "-O3",
    # a*b+c must have the same bits on every device, see runtime/device/backend.h.
    "-fmad=false",
    # Gives source lines to compute-sanitizer and to profiles.
    "-lineinfo",
    "-Werror=all-warnings",
    "-Xptxas=-v",
    "-Xcompiler=-fPIC,-ffp-contract=off,-fvisibility=hidden,-Wall,-Werror,-D_GNU_SOURCE",
]

def _gencode(generations):
    flags = ["-gencode=arch=compute_{n},code=sm_{n}".format(n = n) for n in generations]
    return flags + ["-gencode=arch=compute_{n},code=compute_{n}".format(n = generations[-1])]

def _include_flags(compilation):
    # Project headers are found only by quoted includes: the folder cuda/ must not hide libcu++'s
    # <cuda/...>.
    flags = ["-Xcompiler=-iquote," + folder for folder in compilation.quote_includes.to_list()]
    for folder in compilation.includes.to_list() + compilation.system_includes.to_list():
        flags.append("-isystem=" + folder)
    return flags + ["-D" + define for define in compilation.defines.to_list()]

def _compile(ctx, source, compilation):
    toolkit = ctx.attr.toolkit[CudaToolkitInfo]
    stem = "_cuda/{}/{}".format(ctx.label.name, source.basename[:-len(".cu")])
    compiled = ctx.actions.declare_file(stem + ".pic.o")
    resources = ctx.actions.declare_file(stem + ".resources.txt")
    ptx = ctx.actions.declare_file(stem + ".ptx")
    flags = _NVCC_OPTIONS + _gencode(ctx.attr.generations) + _include_flags(compilation)
    flags += ["-ccbin=" + tool.path for tool in ctx.files.host_compiler if tool.basename == "gcc"]
    ctx.actions.run_shell(
        mnemonic = "CudaCompile",
        progress_message = "Compiling {} with nvcc".format(source.short_path),
        inputs = depset(
            [source] + ctx.files.hdrs + ctx.files.host_compiler,
            transitive = [compilation.headers],
        ),
        outputs = [compiled, resources, ptx],
        arguments = [toolkit.root, compiled.path, resources.path, ptx.path] + flags +
                    ["-c", source.path],
        # nvcc prints the report of ptxas on stderr, which is shown only after an error. nvcc names
        # temporary files by its process number, but sandboxes share /tmp and have the same process
        # numbers.
        command = "export TMPDIR=$(mktemp -d); trap 'rm -rf \"$TMPDIR\"' EXIT; " +
                  "root=$1 object=$2 report=$3 ptx=$4; shift 4; " +
                  "\"$root\"/bin/nvcc \"$@\" --keep --keep-dir \"$TMPDIR\" -o \"$object\" " +
                  "2>\"$report\" || { cat \"$report\" >&2; exit 1; }; " +
                  "cp \"$(ls -v \"$TMPDIR\"/*.ptx | tail -n 1)\" \"$ptx\"",
        env = {"PATH": "/usr/bin:/bin", "THRIFTPS_NVCC": toolkit.release},
    )
    return compiled, resources, ptx

def _cuda_objects_impl(ctx):
    merged = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    outputs = [_compile(ctx, source, merged.compilation_context) for source in ctx.files.srcs]
    return [
        DefaultInfo(files = depset([output[0] for output in outputs])),
        OutputGroupInfo(
            resources = depset([output[1] for output in outputs]),
            ptx = depset([output[2] for output in outputs]),
        ),
    ]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"], mandatory = True),
        "hdrs": attr.label_list(allow_files = [".h", ".cuh"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "generations": attr.string_list(mandatory = True),
        "host_compiler": attr.label_list(allow_files = True),
        "toolkit": attr.label(mandatory = True, providers = [CudaToolkitInfo]),
    },
)

def _cuda_reports_impl(ctx):
    files = ctx.attr.objects[OutputGroupInfo][ctx.attr.kind]
    return [DefaultInfo(files = files, runfiles = ctx.runfiles(transitive_files = files))]

_cuda_reports = rule(
    implementation = _cuda_reports_impl,
    attrs = {
        "objects": attr.label(mandatory = True),
        "kind": attr.string(mandatory = True, values = ["resources", "ptx"]),
    },
)

def cuda_library(
        name,
        srcs,
        hdrs = [],
        deps = [],
        visibility = None,
        tags = [],
        testonly = False,
        **kwargs):
    """A cc_library of .cu files. `hdrs` are .h and .cuh; `deps` are cc_libraries and
    cuda_libraries.
    """
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        hdrs = hdrs,
        deps = deps,
        generations = _GENERATIONS,
        host_compiler = _HOST_COMPILER,
        toolkit = _TOOLKIT,
        target_compatible_with = CUDA_ONLY,
        tags = tags,
        testonly = testonly,
        visibility = ["//visibility:private"],
    )
    for kind in ["resources", "ptx"]:
        _cuda_reports(
            name = name + "_" + kind,
            kind = kind,
            objects = ":" + name + "_objects",
            target_compatible_with = CUDA_ONLY,
            testonly = testonly,
            tags = tags,
            visibility = visibility,
        )
    tps_cc_library(
        name = name,
        srcs = [":" + name + "_objects"],
        hdrs = hdrs,
        language = "c++",
        deps = deps + CUDA_RUNTIME,
        target_compatible_with = CUDA_ONLY,
        testonly = testonly,
        tags = tags,
        visibility = visibility,
        **kwargs
    )

# For C code that calls CUDA: <cuda_runtime_api.h>, <cublas_v2.h> and <nccl.h>, and the runtime
# library.
CUDA_RUNTIME = select({
    "//third_party/cuda:enabled": ["@thriftps_cuda//:cudart"],
    "//conditions:default": [],
})

CUDA_HEADERS = select({
    "//third_party/cuda:enabled": ["@thriftps_cuda//:headers"],
    "//conditions:default": [],
})

def cuda_binary(
        name,
        srcs,
        deps = [],
        linkopts = [],
        visibility = None,
        tags = [],
        testonly = False,
        **kwargs):
    """A program (or, with linkshared, a library to load) with a main in a .cu file."""
    cuda_library(
        name = name + "_main",
        srcs = srcs,
        deps = deps,
        alwayslink = True,
        tags = tags,
        testonly = testonly,
        visibility = ["//visibility:private"],
    )
    tps_cc_binary(
        name = name,
        testonly = testonly,
        deps = [":" + name + "_main"],
        language = "c++",
        linkopts = linkopts,
        target_compatible_with = CUDA_ONLY,
        tags = tags,
        visibility = visibility,
        **kwargs
    )
