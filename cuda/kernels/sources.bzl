"""Kernels whose bodies also compile for the host (launch.cuh)."""

BODIES = [
    "accumulate",
    "cast",
    "coalesce",
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
    "rowwise_adagrad",
]
