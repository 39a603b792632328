"""The rule that packs the wheel. See README.md."""

def _python_wheel_impl(ctx):
    wheel = ctx.actions.declare_file("thriftps-%s-py3-none-%s.whl" % (
        ctx.attr.version,
        ctx.attr.platform,
    ))
    arguments = ctx.actions.args()
    arguments.add(ctx.file._tool)
    arguments.add(wheel)
    arguments.add(ctx.file.readme)
    inputs = [ctx.file._tool, ctx.file.readme]
    for target, place in ctx.attr.files.items():
        for file in target.files.to_list():
            inputs.append(file)
            arguments.add(place)
            arguments.add(file.path)
    ctx.actions.run(
        executable = "/usr/bin/python3",
        arguments = [arguments],
        inputs = inputs,
        outputs = [wheel],
        mnemonic = "PythonWheel",
        use_default_shell_env = True,
    )
    return [DefaultInfo(files = depset([wheel]), runfiles = ctx.runfiles([wheel]))]

python_wheel = rule(
    implementation = _python_wheel_impl,
    doc = "A wheel of `files`, the same bytes wherever it is made; see wheel.py.",
    attrs = {
        "files": attr.label_keyed_string_dict(
            mandatory = True,
            allow_files = True,
            doc = "Target: place, as wheel.py takes it. Of two with one place the first counts.",
        ),
        "platform": attr.string(mandatory = True, doc = "manylinux_X_Y_MACHINE"),
        "readme": attr.label(mandatory = True, allow_single_file = True),
        "version": attr.string(mandatory = True),
        "_tool": attr.label(default = "wheel.py", allow_single_file = True),
    },
)
