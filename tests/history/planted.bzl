"""Programs with planted bugs (runtime/base/planted_bug.h), and the same programs without them."""

def _plant_impl(settings, attr):
    return {"//third_party:planted_bugs": True}

_plant = transition(
    implementation = _plant_impl,
    inputs = [],
    outputs = ["//third_party:planted_bugs"],
)

def _planted_binary_impl(ctx):
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = program, target_file = ctx.executable.binary, is_executable = True)
    return [DefaultInfo(executable = program)]

planted_binary = rule(
    implementation = _planted_binary_impl,
    doc = "The program `binary`, built with --//third_party:planted_bugs on every command line.",
    executable = True,
    attrs = {
        "binary": attr.label(mandatory = True, executable = True, cfg = _plant),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
