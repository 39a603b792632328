"""Repository rules for libraries that the system's package manager installed.

    pkg_config_library(
        name = "glib",
        package = "glib-2.0",       # name in pkg-config
        at_least = "2.66",          # version floor
        debian = "libglib2.0-dev",  # named in the error if it is missing or too old
        headers = ["glib.h", "glib/**/*.h", "glibconfig.h"],
    )

makes `@glib//:glib`, a cc_library. Its include folders are symlinked into the repository, so that
they are inputs like any other (the sandbox contains only `headers`). They are system includes, so
that our warnings do not apply to them. A library with headers in /usr/include needs no `headers`.

With --config=hermetic, all of this is searched for in the packages of hermetic/, by their own
pkg-config.
"""

load("//third_party/hermetic:sysroot.bzl", "HERMETIC", "find_sysroot")

# gmodule-2.0 needs this flag for programs whose modules use symbols of the program. No module here
# does.
_IGNORED_FLAGS = ["-Wl,--export-dynamic"]

# Debian's folders of .pc files. The installation of OpenBLAS would link its own .pc file into the
# first folder.
_PC_FOLDERS = [
    "usr/lib/x86_64-linux-gnu/pkgconfig",
    "usr/lib/x86_64-linux-gnu/openblas-pthread/pkgconfig",
    "usr/lib/pkgconfig",
    "usr/share/pkgconfig",
]

def _root(repository_ctx):
    """Returns the folder that stands for /, without a slash at its end."""
    sysroot = find_sysroot(repository_ctx)
    return str(sysroot) + "/debian" if sysroot else ""

def _run(repository_ctx, arguments):
    sysroot = find_sysroot(repository_ctx)
    if not sysroot:
        return repository_ctx.execute(["pkg-config"] + arguments)
    root = _root(repository_ctx)
    return repository_ctx.execute([str(sysroot) + "/bin/pkgconf"] + arguments, environment = {
        "PKG_CONFIG_LIBDIR": ":".join([root + "/" + folder for folder in _PC_FOLDERS]),
        "PKG_CONFIG_PATH": "",
        "PKG_CONFIG_SYSROOT_DIR": root,
        # The compiler searches these folders anyway.
        "PKG_CONFIG_SYSTEM_INCLUDE_PATH": root + "/usr/include",
        "PKG_CONFIG_SYSTEM_LIBRARY_PATH": root + "/usr/lib/x86_64-linux-gnu",
    })

def _has_pkg_config(repository_ctx):
    return find_sysroot(repository_ctx) or repository_ctx.which("pkg-config")

def _install_hint(repository_ctx):
    if find_sysroot(repository_ctx):
        return "{} is missing in third_party/hermetic/packages.txt".format(repository_ctx.attr.debian)
    return "install Debian's {} (BAZELW_PACKAGES=all ./bazelw ... does it)".format(repository_ctx.attr.debian)

def _flags(repository_ctx, kind):
    result = _run(repository_ctx, [kind, repository_ctx.attr.package])
    if result.return_code:
        fail("pkg-config {} {}: {}".format(kind, repository_ctx.attr.package, result.stderr))
    return [flag for flag in result.stdout.strip().split(" ") if flag and flag not in _IGNORED_FLAGS]

def _data(repository_ctx):
    # Programs find the libraries through their rpath (tps.bzl). The lock is an input, so that a
    # test runs again when it changes.
    return ["@thriftps_sysroot//:packages.lock"] if find_sysroot(repository_ctx) else []

def _check_version(repository_ctx):
    package, floor = repository_ctx.attr.package, repository_ctx.attr.at_least
    if not _has_pkg_config(repository_ctx):
        fail("pkg-config is missing: install Debian's pkg-config (./bazelw does it)")
    found = _run(repository_ctx, ["--modversion", package])
    if found.return_code:
        fail("{} is missing: {}".format(package, _install_hint(repository_ctx)))
    if _run(repository_ctx, ["--atleast-version=" + floor, package]).return_code:
        fail("{} is {}, at least {} is needed: {}".format(
            package,
            found.stdout.strip(),
            floor,
            _install_hint(repository_ctx),
        ))

def _symlink_includes(repository_ctx):
    """Returns the folders with the library's headers, inside the repository."""
    if not repository_ctx.attr.headers:
        return []
    folders = []
    for flag in _flags(repository_ctx, "--cflags-only-I"):
        folder = "include/%d" % len(folders)
        repository_ctx.symlink(flag[len("-I"):].rstrip("/"), folder)
        folders.append(folder)
    return folders

def _write_build(repository_ctx, folders, linkopts, deps, defines = []):
    repository_ctx.file("BUILD", """\
cc_library(
    name = {name},
    data = {data},
    hdrs = glob({headers}, allow_empty = True),
    defines = {defines},
    includes = {folders},
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
    deps = {deps},
)
""".format(
        name = repr(repository_ctx.name),
        data = _data(repository_ctx),
        headers = [folder + "/" + header for folder in folders for header in repository_ctx.attr.headers],
        defines = defines,
        folders = folders,
        linkopts = linkopts,
        deps = deps,
    ))

def _is_there(repository_ctx):
    package, floor = repository_ctx.attr.package, repository_ctx.attr.at_least
    return bool(_has_pkg_config(repository_ctx) and
                not _run(repository_ctx, ["--atleast-version=" + floor, package]).return_code)

def _pkg_config_library_impl(repository_ctx):
    is_there = not repository_ctx.attr.define or _is_there(repository_ctx)
    repository_ctx.file("found.bzl", "FOUND = {}\n".format(is_there))
    if not is_there:
        _write_build(repository_ctx, folders = [], linkopts = [], deps = [])
        return
    _check_version(repository_ctx)
    _write_build(
        repository_ctx,
        folders = _symlink_includes(repository_ctx),
        linkopts = [] if repository_ctx.attr.is_loaded else _flags(repository_ctx, "--libs"),
        deps = repository_ctx.attr.libraries,
        defines = [repository_ctx.attr.define] if repository_ctx.attr.define else [],
    )

pkg_config_library = repository_rule(
    implementation = _pkg_config_library_impl,
    doc = "A cc_library, named like the repository, with pkg-config's flags for `package`.",
    local = True,
    configure = True,
    environ = [HERMETIC, "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"],
    attrs = {
        "package": attr.string(mandatory = True, doc = "Name for pkg-config."),
        "at_least": attr.string(mandatory = True, doc = "Oldest supported version."),
        "debian": attr.string(mandatory = True, doc = "Debian package of the library."),
        "headers": attr.string_list(
            doc = "Globs of its own headers, relative to its include folders; none: they are in /usr/include.",
        ),
        "libraries": attr.string_list(doc = "Labels of the cc_libraries that its headers need."),
        "define": attr.string(
            doc = "Makes the library optional: it is empty if it is not installed, and else sets this define. " +
                  "BUILD files can load `FOUND` from its found.bzl.",
        ),
        "is_loaded": attr.bool(doc = "Programs load the library at run time and are not linked against it."),
    },
)

def _system_library_impl(repository_ctx):
    header = repository_ctx.attr.header
    if not repository_ctx.path(_root(repository_ctx) + "/usr/include/" + header).exists:
        fail("<{}> is missing: {}".format(header, _install_hint(repository_ctx)))
    _write_build(repository_ctx, folders = [], linkopts = repository_ctx.attr.linkopts, deps = [])

system_library = repository_rule(
    implementation = _system_library_impl,
    doc = "A cc_library for a library in /usr/include that has no pkg-config file.",
    local = True,
    configure = True,
    environ = [HERMETIC],
    attrs = {
        "header": attr.string(mandatory = True, doc = "A header whose presence shows that the library is installed."),
        "debian": attr.string(mandatory = True, doc = "Debian package of the library."),
        "linkopts": attr.string_list(mandatory = True),
        "headers": attr.string_list(),
    },
)

def _system_folder_impl(repository_ctx):
    folder = repository_ctx.path(_root(repository_ctx) + repository_ctx.attr.folder)
    if not folder.exists:
        fail("{} is missing: {}".format(folder, _install_hint(repository_ctx)))
    for entry in folder.readdir():
        repository_ctx.symlink(entry, entry.basename)
    repository_ctx.template("BUILD", repository_ctx.attr.build)

system_folder = repository_rule(
    implementation = _system_folder_impl,
    doc = "A folder of sources that a package installs, with a BUILD file of ours.",
    local = True,
    configure = True,
    environ = [HERMETIC],
    attrs = {
        "build": attr.label(mandatory = True, allow_single_file = True),
        "debian": attr.string(mandatory = True, doc = "Debian package of the folder."),
        "folder": attr.string(mandatory = True),
    },
)

def _system_program_impl(repository_ctx):
    sysroot = find_sysroot(repository_ctx)
    name = repository_ctx.attr.program
    program = repository_ctx.path("{}/bin/{}".format(sysroot or "/usr", name))
    if not program.exists:
        fail("{} is missing: {}".format(program, _install_hint(repository_ctx)))
    repository_ctx.symlink(program, name)
    repository_ctx.file("BUILD", "exports_files([{}])\n".format(repr(name)))

system_program = repository_rule(
    implementation = _system_program_impl,
    doc = "A program in /usr/bin that the build runs, as a file of the same name.",
    local = True,
    configure = True,
    environ = [HERMETIC],
    attrs = {
        "debian": attr.string(mandatory = True, doc = "Debian package of the program."),
        "program": attr.string(mandatory = True),
    },
)
