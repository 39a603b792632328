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
"""

# gmodule-2.0 needs it for programs whose modules use symbols of the program, which ours do not.
_IGNORED_FLAGS = ["-Wl,--export-dynamic"]

def _run(repository_ctx, arguments):
    return repository_ctx.execute(["pkg-config"] + arguments)

def _install_hint(repository_ctx):
    return "install Debian's {} (BAZELW_PACKAGES=all ./bazelw ... does it)".format(repository_ctx.attr.debian)

def _flags(repository_ctx, kind):
    result = _run(repository_ctx, [kind, repository_ctx.attr.package])
    if result.return_code:
        fail("pkg-config {} {}: {}".format(kind, repository_ctx.attr.package, result.stderr))
    return [flag for flag in result.stdout.strip().split(" ") if flag and flag not in _IGNORED_FLAGS]

def _check_version(repository_ctx):
    package, floor = repository_ctx.attr.package, repository_ctx.attr.at_least
    if not repository_ctx.which("pkg-config"):
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
    hdrs = glob({headers}, allow_empty = True),
    defines = {defines},
    includes = {folders},
    linkopts = {linkopts},
    visibility = ["//visibility:public"],
    deps = {deps},
)
""".format(
        name = repr(repository_ctx.name),
        headers = [folder + "/" + header for folder in folders for header in repository_ctx.attr.headers],
        defines = defines,
        folders = folders,
        linkopts = linkopts,
        deps = deps,
    ))

def _is_there(repository_ctx):
    package, floor = repository_ctx.attr.package, repository_ctx.attr.at_least
    return bool(repository_ctx.which("pkg-config") and
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
    environ = ["PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR"],
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
    if not repository_ctx.path("/usr/include/" + header).exists:
        fail("<{}> is missing: {}".format(header, _install_hint(repository_ctx)))
    _write_build(repository_ctx, folders = [], linkopts = repository_ctx.attr.linkopts, deps = [])

system_library = repository_rule(
    implementation = _system_library_impl,
    doc = "A cc_library for a library in /usr/include that has no pkg-config file.",
    local = True,
    configure = True,
    attrs = {
        "header": attr.string(mandatory = True, doc = "A header whose presence shows that the library is installed."),
        "debian": attr.string(mandatory = True, doc = "Debian package of the library."),
        "linkopts": attr.string_list(mandatory = True),
        "headers": attr.string_list(),
    },
)
