"""The Debian packages of --config=hermetic as a repository.

    debian_sysroot(name = "thriftps_sysroot")

has the files of the packages of packages.lock (debian/), their shared libraries (lib/), their
programs (bin/) and a toolchain with their compiler. The packages are not installed.
"""

# The programs of the packages that the build runs.
_PROGRAMS = ["ar", "gcc", "gcov", "ld", "nm", "objcopy", "objdump", "pkgconf", "strip", "thrift"]

def _run(repository_ctx, arguments):
    # Not quiet, so that the operator sees the downloads.
    result = repository_ctx.execute(arguments, timeout = 3600, quiet = False)
    if result.return_code:
        fail("--config=hermetic: {} failed:\n{}".format(
            " ".join([str(argument) for argument in arguments]),
            result.stderr[-4000:],
        ))

def _debian_sysroot_impl(repository_ctx):
    machine = repository_ctx.execute(["uname", "-m"]).stdout.strip()
    if machine != "x86_64":
        fail("--config=hermetic: packages.lock is for x86_64, and this machine is " + machine)
    repository_ctx.report_progress("fetching Debian packages")
    _run(repository_ctx, [repository_ctx.path(repository_ctx.attr.lock_script), "--fetch", "packages"])
    repository_ctx.report_progress("unpacking Debian packages")
    _run(repository_ctx, [repository_ctx.path(repository_ctx.attr.unpack), "packages", "."])
    repository_ctx.delete("packages")
    digest = repository_ctx.execute(["sha256sum", repository_ctx.path(repository_ctx.attr.lock)])
    for program in _PROGRAMS:
        repository_ctx.template(
            "bin/" + program,
            repository_ctx.attr.tool,
            substitutions = {"%{lock}": digest.stdout[:64]},
            executable = True,
        )
    repository_ctx.template("packages.lock", repository_ctx.attr.lock)
    repository_ctx.template("BUILD", repository_ctx.attr.build)

debian_sysroot = repository_rule(
    implementation = _debian_sysroot_impl,
    attrs = {
        "build": attr.label(default = "//third_party/hermetic:sysroot.BUILD", allow_single_file = True),
        "lock": attr.label(default = "//third_party/hermetic:packages.lock", allow_single_file = True),
        "lock_script": attr.label(default = "//third_party:lock.sh", allow_single_file = True),
        "tool": attr.label(default = "//third_party/hermetic:tool.sh", allow_single_file = True),
        "unpack": attr.label(default = "//third_party/hermetic:unpack.sh", allow_single_file = True),
    },
)

def find_sysroot(repository_ctx):
    """Returns the path of the sysroot's repository, or None without --config=hermetic.

    Rules that call it need HERMETIC in their `environ`.
    """
    if repository_ctx.os.environ.get(HERMETIC) != "1":
        return None
    return repository_ctx.path(Label("@thriftps_sysroot//:BUILD")).dirname

HERMETIC = "THRIFTPS_HERMETIC"
