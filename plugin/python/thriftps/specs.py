# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Specifications of tables and models: optimizers and initial values. None selects the server's
default, which is PyTorch's default if PyTorch has the same optimizer.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Optional

from thriftps import _native

__all__ = [
    "Adagrad",
    "Adam",
    "AdamW",
    "Ftrl",
    "Initializer",
    "Normal",
    "Optimizer",
    "RowwiseAdagrad",
    "SGD",
    "Uniform",
    "Zeros",
]

_NUMBERS = ("momentum", "weight_decay", "epsilon", "beta1", "beta2", "l1", "l2", "beta")


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """An update rule. Use a subclass."""

    kind: ClassVar[int] = 0
    lr: float

    def to_native(self) -> _native.OptimizerSpec:
        """The struct of the C client."""
        numbers = (getattr(self, name, None) for name in _NUMBERS)
        return _native.OptimizerSpec(self.kind, self.lr, *numbers)


@dataclasses.dataclass(frozen=True)
class SGD(Optimizer):
    """Like torch.optim.SGD."""

    kind: ClassVar[int] = 1
    momentum: Optional[float] = None
    weight_decay: Optional[float] = None
    nesterov: bool = False

    def to_native(self) -> _native.OptimizerSpec:
        """The struct of the C client."""
        spec = super().to_native()
        if _native.to_flag("nesterov", self.nesterov):
            if not self.momentum:
                expected = "a number above 0 with nesterov=True"
                raise _native.refuse("momentum", self.momentum, expected)
            spec.kind = 7  # NESTEROV
        return spec


@dataclasses.dataclass(frozen=True)
class Adagrad(Optimizer):
    """Like torch.optim.Adagrad."""

    kind: ClassVar[int] = 2
    weight_decay: Optional[float] = None
    epsilon: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class RowwiseAdagrad(Optimizer):
    """Adagrad with one accumulator per row."""

    kind: ClassVar[int] = 3
    weight_decay: Optional[float] = None
    epsilon: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Adam(Optimizer):
    """Like torch.optim.Adam; for the rows of tables, like torch.optim.SparseAdam."""

    kind: ClassVar[int] = 4
    weight_decay: Optional[float] = None
    epsilon: Optional[float] = None
    beta1: Optional[float] = None
    beta2: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Like torch.optim.AdamW: weight decay is apart from the gradient. Steps and decay change only
    rows that have a gradient."""

    kind: ClassVar[int] = 6
    weight_decay: Optional[float] = None
    epsilon: Optional[float] = None
    beta1: Optional[float] = None
    beta2: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Ftrl(Optimizer):
    """Follow the regularized leader, proximal."""

    kind: ClassVar[int] = 5
    weight_decay: Optional[float] = None
    l1: Optional[float] = None
    l2: Optional[float] = None
    beta: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Initializer:
    """Initial values of rows, which depend only on the seed and the row's id. Use a subclass."""

    kind: ClassVar[int] = 0

    def to_native(self) -> _native.Initializer:
        """The struct of the C client."""
        numbers = (getattr(self, name, None) for name in ("low", "high", "mean", "stdev"))
        return _native.Initializer(self.kind, *numbers, getattr(self, "seed", 0))


@dataclasses.dataclass(frozen=True)
class Zeros(Initializer):
    """All values are 0. The seed is for stochastic rounding only (Tables.create())."""

    kind: ClassVar[int] = 1
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Uniform(Initializer):
    """Uniform distribution in [low, high]."""

    kind: ClassVar[int] = 2
    low: float = 0.0
    high: float = 1.0
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class Normal(Initializer):
    """Normal distribution. Values outside [low, high], if given, are drawn again."""

    kind: ClassVar[int] = 3
    mean: float = 0.0
    stdev: float = 1.0
    seed: int = 0
    low: Optional[float] = None
    high: Optional[float] = None
