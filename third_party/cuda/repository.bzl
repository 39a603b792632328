"""The origin of CUDA's toolkit.

    cuda_toolkit_repository(name = "thriftps_cuda")

makes `:toolkit` (for the rules of rules.bzl), `:headers` (<cuda_runtime_api.h>, <cublas_v2.h>,
<nccl.h>) and `:cudart` (the runtime library, static). Only --config=cuda needs it. The toolkit is
the first of these that exists:

  1. THRIFTPS_CUDA_PATH, then CUDA_PATH (--repo_env=..., or the environment). If one is set, it must
     be valid.
  2. /usr/local/cuda, /opt/cuda, /usr/lib/cuda, or the toolkit of the nvcc on the PATH.
  3. Wheels from PyPI, pinned with their hashes in wheels.lock; THRIFTPS_CUDA_PATH=wheels selects
     them.

pip fetches the wheels from its configured index. They are kept in Bazel's repository cache, under
their hashes, and are not fetched again.
"""

_USUAL = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda"]

# The files that a toolkit must have.
_NEEDED = [
    "bin/nvcc",
    "include/cuda_runtime_api.h",
    "include/cublas_v2.h",
]

_STATIC_RUNTIMES = [
    "lib64/libcudart_static.a",
    "lib/libcudart_static.a",
    "targets/x86_64-linux/lib/libcudart_static.a",
]

# ---- an installed toolkit -----------------------------------------------------------------------

def _first(repository_ctx, root, names):
    for name in names:
        if repository_ctx.path(root + "/" + name).exists:
            return name
    return None

def _missing(repository_ctx, root):
    missing = [name for name in _NEEDED if not repository_ctx.path(root + "/" + name).exists]
    if not _first(repository_ctx, root, _STATIC_RUNTIMES):
        missing.append(_STATIC_RUNTIMES[0])
    return missing

def _said(repository_ctx):
    """Returns (variable, path) of the first variable that is set, or (None, None)."""
    for variable in ["THRIFTPS_CUDA_PATH", "CUDA_PATH"]:
        path = repository_ctx.os.environ.get(variable, "")
        if path:
            return variable, path.rstrip("/")
    return None, None

def _find_installed(repository_ctx):
    variable, path = _said(repository_ctx)
    if path:
        missing = _missing(repository_ctx, path)
        if missing:
            fail("{}={} is no CUDA toolkit that can be used: {} missing there".format(
                variable,
                path,
                ", ".join(missing),
            ))
        return path
    nvcc = repository_ctx.which("nvcc")
    folders = _USUAL + ([str(nvcc.realpath.dirname.dirname)] if nvcc else [])
    for folder in folders:
        if not _missing(repository_ctx, folder):
            return folder
    return None

# ---- wheels -------------------------------------------------------------------------------------

def _read_lock(repository_ctx):
    """Returns [(requirement, sha256)] of wheels.lock."""
    wheels = []
    for line in repository_ctx.read(repository_ctx.attr.lock).split("\n"):
        requirement, _, sha256 = line.partition(" --hash=sha256:")
        if sha256 and not line.startswith("#"):
            wheels.append((requirement.strip(), sha256.strip()))
    return wheels

def _pip_download(repository_ctx, wheels):
    """Fetches `wheels` with pip, which checks the hashes, into pip/. Returns {sha256: path}."""
    python = repository_ctx.which("python3")
    if not python:
        fail("no CUDA toolkit is installed, and there is no python3 to fetch one with pip: " +
             "install one of them, or set THRIFTPS_CUDA_PATH")
    repository_ctx.file("wanted.txt", "".join([
        "{} --hash=sha256:{}\n".format(requirement, sha256)
        for requirement, sha256 in wheels
    ]))
    repository_ctx.report_progress("pip downloads {}".format(", ".join([w[0] for w in wheels])))
    result = repository_ctx.execute(
        [
            python,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--require-hashes",
            "--only-binary=:all:",
            "--no-cache-dir",
            "--dest=pip",
            "--requirement=wanted.txt",
        ],
        timeout = 3600,
    )
    if result.return_code:
        fail("no CUDA toolkit in {} or on the PATH, and pip could not fetch one: {}\n{}".format(
            ", ".join(_USUAL),
            "install the toolkit, set THRIFTPS_CUDA_PATH, or let pip reach PyPI",
            result.stderr[-2000:],
        ))
    sums = repository_ctx.execute(["sh", "-c", "sha256sum pip/*.whl"])
    if sums.return_code:
        fail("sha256sum: " + sums.stderr)
    return {line[:64]: line[66:] for line in sums.stdout.strip().split("\n")}

def _take_from_cache(repository_ctx, sha256, output, url):
    # Bazel first looks for the hash in its repository cache, and uses the address only if the hash
    # is missing.
    return repository_ctx.download(
        url = url,
        output = output,
        sha256 = sha256,
        allow_fail = True,
    ).success

def _fetch_wheels(repository_ctx):
    """Creates the tree that nvcc expects; returns its root."""
    wheels = _read_lock(repository_ctx)
    nowhere = "file:///thriftps/not/in/the/repository/cache"
    absent = [
        wheel
        for wheel in wheels
        if not _take_from_cache(repository_ctx, wheel[1], wheel[1] + ".zip", nowhere)
    ]
    if absent:
        fetched = _pip_download(repository_ctx, absent)
        for requirement, sha256 in absent:
            url = "file://" + str(repository_ctx.path(fetched[sha256]))
            if not _take_from_cache(repository_ctx, sha256, sha256 + ".zip", url):
                fail("{}: cannot be read after the download".format(requirement))
        repository_ctx.delete("pip")
    for _, sha256 in wheels:
        repository_ctx.extract(sha256 + ".zip", output = "wheels")
        repository_ctx.delete(sha256 + ".zip")
    root = str(repository_ctx.path("wheels/nvidia/cu13"))
    repository_ctx.execute(["sh", "-c", "chmod -R a+x \"$1\"/bin \"$1\"/nvvm/bin", "sh", root])
    missing = _missing(repository_ctx, root)
    if missing:
        fail("the wheels of wheels.lock do not hold {}".format(", ".join(missing)))
    return root

# ---- the repository -----------------------------------------------------------------------------

def _find_nccl(repository_ctx, root):
    """Returns the folder with nccl.h."""
    said = repository_ctx.os.environ.get("NCCL_PATH", "")
    folders = ([said + "/include"] if said else []) + [
        root + "/include",
        str(repository_ctx.path("wheels/nvidia/nccl/include")),
        "/usr/include",
    ]
    for folder in folders:
        if repository_ctx.path(folder + "/nccl.h").exists:
            return folder
    fail("nccl.h is missing in {}: install NCCL (libnccl-dev), or set NCCL_PATH".format(", ".join(folders)))

def _release(repository_ctx, root):
    result = repository_ctx.execute([root + "/bin/nvcc", "--version"])
    if result.return_code:
        fail("{}/bin/nvcc does not run: {}".format(root, result.stderr))
    line = [line for line in result.stdout.split("\n") if "release" in line]
    return line[0].split("release ")[1].strip() if line else "unknown"

def _rules():
    # A label of the main repository has no repository name. With "@", it is valid in all
    # repositories.
    label = str(Label("//third_party/cuda:rules.bzl"))
    return label if label.startswith("@") else "@" + label

def _cuda_toolkit_repository_impl(repository_ctx):
    variable, path = _said(repository_ctx)
    root = None if path == "wheels" else _find_installed(repository_ctx)
    if not root:
        root = _fetch_wheels(repository_ctx)
    repository_ctx.symlink(root + "/include", "include")
    repository_ctx.symlink(_find_nccl(repository_ctx, root) + "/nccl.h", "nccl/nccl.h")
    repository_ctx.symlink(
        root + "/" + _first(repository_ctx, root, _STATIC_RUNTIMES),
        "lib/libcudart_static.a",
    )
    repository_ctx.file("BUILD", """\
load("{rules}", "cuda_toolkit")

package(default_visibility = ["//visibility:public"])

cuda_toolkit(
    name = "toolkit",
    release = {release},
    root = {root},
)

cc_library(
    name = "headers",
    hdrs = glob(["include/*.h", "include/*.hpp", "include/crt/**", "include/nv/**", "nccl/nccl.h"]),
    includes = ["include", "nccl"],
)

cc_library(
    name = "cudart",
    srcs = ["lib/libcudart_static.a"],
    linkopts = ["-ldl", "-lrt", "-pthread"],
    deps = [":headers"],
)
""".format(
        rules = _rules(),
        release = repr(_release(repository_ctx, root)),
        root = repr(root),
    ))

cuda_toolkit_repository = repository_rule(
    implementation = _cuda_toolkit_repository_impl,
    local = False,
    configure = True,
    environ = ["THRIFTPS_CUDA_PATH", "CUDA_PATH", "NCCL_PATH", "PATH"],
    attrs = {
        "lock": attr.label(default = "//third_party/cuda:wheels.lock", allow_single_file = True),
    },
)
