"""The rule that lays the Python package out for programs that Bazel builds. See README.md."""

# $1 = folder, $2 = version, $3 = generated code, $4 = library; then the files of the package.
_LAY_OUT = """
set -eu
folder=$1 version=$2 generated=$3 library=$4; shift 4
mkdir -p "$folder"
cp -rL "$generated/." "$folder"
chmod -R u+w "$folder"
rm -f "$folder/__init__.py"
find "$folder" -type f ! -name '*.py' -delete
cp -L "$library" "$@" "$folder/thriftps"
printf '__version__ = "%s"\\n' "$version" > "$folder/thriftps/_version.py"
"""

def _python_package_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add(folder.path)
    arguments.add(ctx.attr.version)
    arguments.add_all(ctx.files.generated, expand_directories = False)
    arguments.add(ctx.file.library)
    arguments.add_all(ctx.files.srcs)
    ctx.actions.run_shell(
        inputs = ctx.files.generated + ctx.files.srcs + [ctx.file.library],
        outputs = [folder],
        command = _LAY_OUT,
        arguments = [arguments],
        mnemonic = "PythonPackage",
    )
    return [
        DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles(files = [folder])),
        PyInfo(
            transitive_sources = depset([folder]),
            imports = depset(["/".join([
                ctx.label.workspace_name or ctx.workspace_name,
                ctx.label.package,
                ctx.label.name,
            ])]),
            has_py3_only_sources = True,
        ),
    ]

python_package = rule(
    implementation = _python_package_impl,
    doc = """A folder, named like the target, with the files of the wheel.

As `deps` of a py_binary or py_test it is on sys.path. The libraries that the native one needs are
those of the system, not copies as in the wheel.""",
    attrs = {
        "srcs": attr.label_list(allow_files = True, mandatory = True, doc = "Files of the package."),
        "generated": attr.label(
            mandatory = True,
            doc = "A thrift_py_library, whose packages become part of this one.",
        ),
        "library": attr.label(
            allow_single_file = True,
            mandatory = True,
            doc = "The shared library that _native.py loads.",
        ),
        "version": attr.string(mandatory = True, doc = "For _version.py."),
    },
)
