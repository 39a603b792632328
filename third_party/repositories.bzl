"""The external libraries of ThriftPS. The system provides all of them: nothing is downloaded
(except in cuda/ and hermetic/).

A workspace that uses ThriftPS calls `thriftps_rules()` and `thriftps_repositories()` in its own
WORKSPACE. For libraries on whose behaviour we rely, the version floor is the version in Debian 12,
or an earlier one that has been checked.
"""

load("//third_party/cuda:repository.bzl", "cuda_toolkit_repository")
load("//third_party/hermetic:sysroot.bzl", "debian_sysroot")
load(":pkg_config.bzl", "pkg_config_library", "system_folder", "system_library", "system_program")

def _bundled_repository_impl(repository_ctx):
    folder = repository_ctx.path(repository_ctx.attr.build).dirname
    for entry in folder.readdir():
        repository_ctx.symlink(entry, entry.basename)

_bundled_repository = repository_rule(
    implementation = _bundled_repository_impl,
    doc = "A folder of this tree as a repository of its own.",
    local = True,
    attrs = {"build": attr.label(mandatory = True, allow_single_file = True)},
)

# Debian's packages of the rules that Bazel 4.2 needs.
_DEBIAN_RULES = {
    "bazel_skylib": "/usr/share/bazel/tools/skylib",
    "platforms": "/usr/share/bazel/platforms",
    "rules_java": "/usr/share/bazel/rules/java",
    "rules_proto": "/usr/share/bazel/rules/proto",
}

def thriftps_rules():
    """Declares the repositories that Bazel 4.2 needs by name, and would otherwise download.

    Repositories that the workspace has already declared are unchanged.
    """
    for name, path in _DEBIAN_RULES.items():
        if not native.existing_rule(name):
            native.local_repository(name = name, path = path)
    for name in ["rules_cc", "remote_coverage_tools"]:
        if not native.existing_rule(name):
            _bundled_repository(name = name, build = Label("//third_party/%s:BUILD" % name))

def thriftps_repositories():
    """Declares the libraries that `//third_party` wraps. Each is searched for when it is first
    needed.
    """

    # The headers of GLib's parts are separate. Therefore an include of <glib-object.h> without a
    # dependency on :gobject fails in the sandbox: runtime/ must use only the core of GLib.
    pkg_config_library(
        name = "thriftps_glib",
        package = "glib-2.0",
        at_least = "2.74",
        debian = "libglib2.0-dev",
        headers = ["glib.h", "glib-unix.h", "glib/**/*.h", "glibconfig.h"],
    )
    pkg_config_library(
        name = "thriftps_gobject",
        package = "gobject-2.0",
        at_least = "2.74",
        debian = "libglib2.0-dev",
        headers = ["glib-object.h", "gobject/**/*.h"],
        libraries = ["@thriftps_glib"],
    )
    pkg_config_library(
        name = "thriftps_gio",
        package = "gio-2.0",
        at_least = "2.74",
        debian = "libglib2.0-dev",
        headers = ["gio/**/*.h", "gmodule.h"],
        libraries = ["@thriftps_gobject"],
    )
    pkg_config_library(
        name = "thriftps_json_glib",
        package = "json-glib-1.0",
        at_least = "1.6",
        debian = "libjson-glib-dev",
        headers = ["json-glib/**/*.h"],
        libraries = ["@thriftps_gio"],
    )
    pkg_config_library(
        name = "thriftps_soup",
        package = "libsoup-3.0",
        at_least = "3.2",
        debian = "libsoup-3.0-dev",
        headers = ["libsoup/*.h"],
        libraries = ["@thriftps_gio"],
    )
    pkg_config_library(
        name = "thriftps_thrift_c_glib",
        package = "thrift_c_glib",
        at_least = "0.17.0",
        debian = "libthrift-c-glib-dev",
        libraries = ["@thriftps_gobject"],
    )
    pkg_config_library(
        name = "thriftps_thrift_cpp",
        package = "thrift",
        at_least = "0.17.0",
        debian = "libthrift-dev",
    )
    pkg_config_library(
        name = "thriftps_thrift_cpp_zlib",
        package = "thrift-z",
        at_least = "0.17.0",
        debian = "libthrift-dev",
    )
    pkg_config_library(
        name = "thriftps_openblas",
        package = "openblas",
        at_least = "0.3.20",
        debian = "libopenblas-pthread-dev",
        headers = ["cblas.h", "openblas_config.h"],
        is_loaded = True,
    )
    pkg_config_library(
        name = "thriftps_isal",
        package = "libisal",
        at_least = "2.30",
        debian = "libisal-dev",
    )
    pkg_config_library(
        name = "thriftps_openssl",
        package = "openssl",
        at_least = "3.0.0",
        debian = "libssl-dev",
    )
    pkg_config_library(
        name = "thriftps_fuse",
        package = "fuse3",
        at_least = "3.10",
        debian = "libfuse3-dev",
        define = "TPS_HAS_FUSE",
        headers = ["*.h"],
    )
    pkg_config_library(
        name = "thriftps_xxhash",
        package = "libxxhash",
        at_least = "0.8.0",
        debian = "libxxhash-dev",
    )
    system_library(
        name = "thriftps_gloo",
        header = "gloo/allreduce.h",
        debian = "libgloo-dev",
        linkopts = ["-lgloo"],
    )

    # For a peer of a benchmark, which is built only if the library is installed. librocksdb-dev is
    # not in apt.txt.
    pkg_config_library(
        name = "thriftps_rocksdb",
        package = "rocksdb",
        at_least = "7.8",
        debian = "librocksdb-dev",
        define = "TPS_HAS_ROCKSDB",
    )

    # Not evaluated without --config=cuda.
    cuda_toolkit_repository(name = "thriftps_cuda")

    # Debian ships GoogleTest's sources.
    system_folder(
        name = "thriftps_googletest",
        build = Label("//third_party:googletest.BUILD"),
        debian = "googletest",
        folder = "/usr/src/googletest",
    )

    # The compiler of IDL files.
    system_program(
        name = "thriftps_thrift_compiler",
        debian = "thrift-compiler",
        program = "thrift",
    )

    # Not evaluated without --config=hermetic.
    debian_sysroot(name = "thriftps_sysroot")
