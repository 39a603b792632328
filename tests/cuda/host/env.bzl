"""How a test's program gets the CUDA library on the host: data = CUDA_ON_HOST_DATA, env = CUDA_ON_HOST_ENV. With NCCL on the
host: data = NCCL_ON_HOST_DATA, env = NCCL_ON_HOST_ENV.
"""

CUDA_ON_HOST_DATA = [
    "//tests/cuda/host:libcublas.so.13",
    "//tests/cuda/host:libcuda.so.1",
    "//tests/cuda/host:libtps_cuda_on_host.so",
]

CUDA_ON_HOST_ENV = {
    "LD_LIBRARY_PATH": "tests/cuda/host",
    "THRIFTPS_CUDA_LIBRARY": "tests/cuda/host/libtps_cuda_on_host.so",
}

NCCL_ON_HOST_DATA = CUDA_ON_HOST_DATA + ["//tests/cuda/group:libnccl.so.2"]

NCCL_ON_HOST_ENV = dict(CUDA_ON_HOST_ENV, LD_LIBRARY_PATH = "tests/cuda/group:tests/cuda/host")
