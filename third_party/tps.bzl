"""The rules of our BUILD files.

    load("//third_party:tps.bzl", "tps_cc_library", "tps_cc_test")

    tps_cc_library(
        name = "tensor",
        srcs = ["tensor.c"],
        hdrs = ["tensor.h"],
        deps = ["//third_party:glib"],
    )

They are the native rules with our compiler options, the same for every target. A target is either
C11 (.c) or C++17 (.cc), because the compiler takes one list of options for each. Headers serve
both. Targets are private unless they, or their package, say otherwise.
"""

def _ours(label):
    """A label of this workspace, from the BUILD file of any workspace."""
    return str(Label(label))

# Set only in this workspace (.bazelrc), because the compilers of other workspaces have other
# warnings.
_WERROR = select({
    _ours("//third_party:is_strict"): ["-Werror"],
    "//conditions:default": [],
})

_WARNINGS = ["-Wall", "-Wextra"] + _WERROR + [
    "-Wcast-qual",
    "-Wformat=2",
    "-Wshadow",
    "-Wundef",
    "-Wvla",
    "-Wwrite-strings",
    # A callback or a vtable function must have all parameters of its contract, even if it does not
    # use them.
    "-Wno-unused-parameter",
]

_COMMON_COPTS = _WARNINGS + [
    "-D_GNU_SOURCE",
    # a*b+c must have the same bits on every CPU, see runtime/device/backend.h.
    "-ffp-contract=off",
    # Position-independent code may inline its own functions, because no program replaces single
    # functions.
    "-fno-semantic-interposition",
    "-pthread",
]

TPS_COPTS = _COMMON_COPTS + [
    "-std=c11",
    "-Wmissing-prototypes",
    "-Wold-style-definition",
    "-Wstrict-prototypes",
    # Structs are initialised by field name, and omitted fields are zero on purpose.
    "-Wno-missing-field-initializers",
]

TPS_CXXOPTS = _COMMON_COPTS + [
    "-std=c++17",
    "-Wno-missing-field-initializers",
]

TPS_LINKOPTS = ["-pthread", "-lm"]

def _rpath(name):
    """Where programs of --config=hermetic find their libraries, and those that they load."""
    depth = len((native.package_name() + "/" + name).strip("/").split("/")) - 1

    # The path from bazel-out/CONFIG/bin in execroot/WORKSPACE to the folder that also has
    # external/.
    to_output_base = "/".join([".."] * (depth + 5))
    return select({
        _ours("//third_party/hermetic:enabled"): [
            # Unlike a runpath, an rpath also applies to the dependencies of libraries.
            "-Wl,--disable-new-dtags",
            "-Wl,-rpath,$$ORIGIN/%s/external/thriftps_sysroot/lib" % to_output_base,
        ],
        "//conditions:default": [],
    })

_C = [".c"]
_CXX = [".cc", ".cpp"]

def _ends(label, extensions):
    return any([label.endswith(extension) for extension in extensions])

# clang has other warnings, and only builds fuzzers here.
_LENIENT = select({
    _ours("//third_party/fuzzing:is_fuzz"): ["-Wno-error"],
    "//conditions:default": [],
})

_PLANTED_BUGS = select({
    _ours("//third_party:plants_bugs"): ["-DTPS_PLANTED_BUGS"],
    "//conditions:default": [],
})

_SANITIZER_OPTIONS = [_ours("//third_party/sanitizers:options")]

def _language_copts(name, srcs, language):
    """Returns the list for the sources. `language` ("c" or "c++") decides if srcs is a select()."""
    if type(srcs) == "list":
        has_c = any([_ends(src, _C) for src in srcs])
        has_cxx = any([_ends(src, _CXX) for src in srcs])
        if has_c and has_cxx:
            fail("{}: C and C++ sources in one target; make it two".format(name))
        if has_cxx:
            language = "c++"
    return (TPS_CXXOPTS if language == "c++" else TPS_COPTS) + _LENIENT

def tps_cc_library(name, srcs = [], copts = [], language = "c", visibility = None, **kwargs):
    """cc_library with our options. `copts` are added; other arguments are passed on."""
    native.cc_library(
        name = name,
        srcs = srcs,
        copts = _language_copts(name, srcs, language) + _PLANTED_BUGS + copts,
        # No program loads these libraries one by one, so no shared library of each is linked.
        linkstatic = True,
        visibility = visibility,
        **kwargs
    )

def tps_cc_binary(
        name,
        srcs = [],
        copts = [],
        linkopts = [],
        deps = [],
        language = "c",
        visibility = None,
        **kwargs):
    """cc_binary with our options."""
    native.cc_binary(
        name = name,
        srcs = srcs,
        copts = _language_copts(name, srcs, language) + copts,
        linkopts = TPS_LINKOPTS + _rpath(name) + linkopts,
        visibility = visibility,
        deps = deps + _SANITIZER_OPTIONS,
        **kwargs
    )

def tps_cc_test(
        name,
        srcs = [],
        copts = [],
        linkopts = [],
        deps = [],
        main = True,
        size = "small",
        language = "c++",
        visibility = None,
        **kwargs):
    """cc_test in C++17 with GoogleTest (<gtest/gtest.h>, <gmock/gmock.h>) and its main.

    main = False leaves out GoogleTest's main: the test has its own, which must call
    testing::InitGoogleTest. The default of size is "small" (a minute).

    Compiled with -O1: half of the time of a full build goes to templates of GoogleTest and of the
    standard library, which take 1.5 times as long with -O2.
    """
    gtest = [_ours("//third_party:gtest_main")] if main else []
    gtest += [_ours("//third_party:gtest"), _ours("//third_party:gmock")]
    native.cc_test(
        name = name,
        srcs = srcs,
        copts = _language_copts(name, srcs, language) + ["-O1"] + copts,
        linkopts = TPS_LINKOPTS + _rpath(name) + linkopts,
        size = size,
        visibility = visibility,
        deps = deps + [label for label in gtest if label not in deps] + _SANITIZER_OPTIONS,
        **kwargs
    )

def tps_cc_fuzz_test(
        name,
        srcs,
        corpus,
        seconds = 20,
        copts = [],
        deps = [],
        size = "small",
        tags = [],
        visibility = None,
        **kwargs):
    """A libFuzzer target: srcs define LLVMFuzzerTestOneInput().

    As a test it replays the files of the folder `corpus`, with any compiler and sanitizer. With
    --config=fuzz it then searches for new inputs for `seconds`. To search for longer, and to keep
    the inputs that are found:

        ./bazelw run --config=fuzz //tests/fuzz:frame_fuzz -- -max_total_time=600 $PWD/tests/fuzz/corpus/frame
    """
    native.cc_test(
        name = name,
        srcs = srcs,
        args = select({
            _ours("//third_party/fuzzing:is_fuzz"): [
                "-max_total_time=%d" % seconds,
                "-print_final_stats=1",
            ],
            "//conditions:default": [],
        }) + ["/".join([native.package_name(), corpus])],
        copts = _language_copts(name, srcs, "c") + copts,
        data = native.glob([corpus + "/**"]),
        linkopts = TPS_LINKOPTS + _rpath(name) + select({
            _ours("//third_party/fuzzing:is_fuzz"): ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        size = size,
        tags = tags + ["fuzz"],
        visibility = visibility,
        deps = deps + _SANITIZER_OPTIONS + select({
            _ours("//third_party/fuzzing:is_fuzz"): [],
            "//conditions:default": [_ours("//third_party/fuzzing:replay_main")],
        }),
        **kwargs
    )
