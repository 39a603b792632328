"""Kernels whose bodies also compile for the host (launch.cuh)."""

BODIES = [
    "accumulate",
    "cast",
    "divide",
    "embedding_backward",
    "embedding_pool",
    "groups",
    "layers",
    "losses",
    "sgd",
    "softmax",
]

OPTIMIZERS = [
    "adagrad",
    "adam",
    "adamw",
    "ftrl",
    "nesterov",
    "rowwise_adagrad",
]
