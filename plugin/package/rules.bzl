"""Rules that build the files of an installation. See README.md."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

# ---- one object ---------------------------------------------------------------------------------

def _one_object_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    left_out = [target.label for target in ctx.attr.left_out]
    archives = []
    for dep in ctx.attr.deps:
        for linker_input in dep[CcInfo].linking_context.linker_inputs.to_list():
            if linker_input.owner in left_out:
                continue
            for library in linker_input.libraries:
                archives.append(library.pic_static_library or library.static_library)
    linked = ctx.actions.declare_file(ctx.label.name + ".pic.o")
    archive = ctx.actions.declare_file(ctx.label.name + ".a")
    ctx.actions.run_shell(
        inputs = depset(
            archives + [ctx.file.symbols],
            transitive = [toolchain.all_files],
        ),
        outputs = [linked, archive],
        command = """
set -eu
ld=$1 objcopy=$2 ar=$3 symbols=$4 linked=$5 archive=$6; shift 6
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
sed 's/^/-u /' "$symbols" > "$work/roots"
"$ld" -r -o "$linked" "@$work/roots" --start-group "$@" --end-group
# Names that are not exported become local, so that they cannot clash with names of the program.
"$objcopy" --strip-debug --keep-global-symbols="$symbols" "$linked" "$work/thriftps.o"
"$ar" rcsD "$archive" "$work/thriftps.o"
""",
        arguments = [
            toolchain.ld_executable,
            toolchain.objcopy_executable,
            toolchain.ar_executable,
            ctx.file.symbols.path,
            linked.path,
            archive.path,
        ] + [archive.path for archive in archives],
        mnemonic = "OneObject",
    )
    return [
        DefaultInfo(files = depset([linked])),
        OutputGroupInfo(archive = depset([archive])),
    ]

one_object = rule(
    implementation = _one_object_impl,
    doc = """Links the functions of `symbols` and all code that they need into one object. The output
group `archive` is a static library of it whose other names are local.""",
    attrs = {
        "deps": attr.label_list(mandatory = True, providers = [CcInfo]),
        "left_out": attr.label_list(doc = "Dependencies of `deps` that are not linked."),
        "symbols": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "A file with one name per line.",
        ),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

# ---- all files ----------------------------------------------------------------------------------

def _files_tar_impl(ctx):
    tar = ctx.actions.declare_file(ctx.label.name + ".tar")
    arguments = ctx.actions.args()
    arguments.add(ctx.file._tool)
    arguments.add(tar)
    inputs = []
    for target, place in ctx.attr.files.items():
        for file in target.files.to_list():
            inputs.append(file)
            arguments.add(place)
            arguments.add(file.path)
    for link, to in ctx.attr.links.items():
        arguments.add(link + "@")
        arguments.add(to)
    ctx.actions.run(
        executable = "/usr/bin/python3",
        arguments = [arguments],
        inputs = inputs + [ctx.file._tool],
        outputs = [tar],
        mnemonic = "FilesTar",
    )
    return [DefaultInfo(files = depset([tar]), runfiles = ctx.runfiles([tar]))]

files_tar = rule(
    implementation = _files_tar_impl,
    doc = "A reproducible archive of `files`; see tar.py.",
    attrs = {
        "files": attr.label_keyed_string_dict(
            mandatory = True,
            allow_files = True,
            doc = "From a target to its place, in the form of tar.py.",
        ),
        "links": attr.string_dict(doc = "From the place of a symbolic link to its contents."),
        "_tool": attr.label(default = "tar.py", allow_single_file = True),
    },
)

# ---- Debian packages ----------------------------------------------------------------------------

def _deb_impl(ctx):
    packages = [ctx.actions.declare_file(name + ".deb") for name in ctx.attr.packages]
    arguments = ctx.actions.args()
    arguments.add(ctx.file._tool)
    arguments.add(ctx.file.files)
    arguments.add(ctx.file.wheel)
    arguments.add(ctx.file._installer)
    arguments.add(ctx.files.control[0].dirname)
    arguments.add(packages[0].dirname)
    arguments.add_all(ctx.attr.packages)
    ctx.actions.run(
        executable = "/usr/bin/python3",
        arguments = [arguments],
        inputs = [
            ctx.file._tool,
            ctx.file.files,
            ctx.file.wheel,
            ctx.file._installer,
        ] + ctx.files.control,
        outputs = packages,
        mnemonic = "Deb",
    )
    return [DefaultInfo(files = depset(packages), runfiles = ctx.runfiles(packages))]

deb = rule(
    implementation = _deb_impl,
    doc = "Debian packages of a files_tar and a wheel, see deb.py.",
    attrs = {
        "files": attr.label(mandatory = True, allow_single_file = [".tar"]),
        "control": attr.label_list(
            mandatory = True,
            allow_files = True,
            doc = "The files of debian/.",
        ),
        "packages": attr.string_list(mandatory = True),
        "wheel": attr.label(mandatory = True, allow_single_file = [".whl"]),
        "_installer": attr.label(default = "install.py", allow_single_file = True),
        "_tool": attr.label(default = "deb.py", allow_single_file = True),
    },
)
