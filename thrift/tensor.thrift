// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// The types that all ThriftPS services share: tensors, gradients, push ids and optimizers.
//
// The names and the field numbers of all files in this folder are the public wire contract. New
// fields are `optional` and have new numbers. A field must never be renumbered, retyped or reused.
//
// Rules for every file:
//  * A field of an enum type is never `required`: generated Java code fails on an unknown value.
//  * Names (of tables, parameters, keys and clients) must match [A-Za-z0-9_.:/-]{1,255}.
//  * The server refuses a missing argument, an unknown enum value, a shape that does not match its
//    bytes, and a negative or overflowing dimension with ServiceError INVALID_ARGUMENT. The message
//    names the argument.

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.tensor
namespace go thriftps.tensor
namespace js thriftps.tensor
namespace rb ThriftPS
namespace perl ThriftPS.Tensor
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

/**
 * The element type of a tensor. Elements are little-endian on the wire, independent of the byte
 * order of either machine.
 */
enum DType {
  /** IEEE 754 binary32 */
  FLOAT32 = 1,
  /** IEEE 754 binary64 */
  FLOAT64 = 2,
  /** IEEE 754 binary16 */
  FLOAT16 = 3,
  /** the upper half of a binary32 */
  BFLOAT16 = 4,
  /** two's complement */
  INT32 = 5,
  /** two's complement */
  INT64 = 6
}

/**
 * A range of a shared-memory segment, which both ends of a connection map. `segment` is valid only
 * on the connection that opened it; offset and length are in bytes. memory.thrift has the rules.
 */
struct SharedSlice {
  1: required i64 segment
  2: required i64 offset
  3: required i64 length
}

/**
 * A dense tensor, row-major (the last dimension varies fastest). Its size in bytes is the product
 * of `shape` times the element size. A scalar has an empty shape. Exactly one of `data` and
 * `shared` must be set, unless there are no elements.
 */
struct Tensor {
  1: DType dtype (enum_type = "DType")
  /** every dimension >= 0, at most 8 dimensions */
  2: required list<i64> shape
  /** the elements; may be absent if there are none */
  3: optional binary data
  /** a slice with the elements, instead of `data` */
  4: optional SharedSlice shared
}

/** Some rows of a tensor of `shape` [rows, dim]. All other rows are zero. */
struct SparseTensor {
  /** INT64 [nnz], each in [0, rows); duplicates are added up */
  1: required Tensor indices
  /** [nnz, dim] */
  2: required Tensor values
  /** [rows, dim] */
  3: required list<i64> shape
}

/** A trainer's contribution to an average, and the type of the average itself. */
struct Gradient {
  /** At most one of dense and sparse may be set. If neither is set, the weight must be 0. */
  1: optional Tensor dense
  2: optional SparseTensor sparse
  /**
   * Default 1. Must be 0, or a positive FLOAT32 that is not subnormal. With 0, the trainer takes
   * part in the round, but adds nothing to the sum: only the kind, shape and dtype of its data are
   * used.
   */
  3: optional double weight (presence = "always")
}

/**
 * Identifies a push, so that the server applies it once even if the client sends it several times.
 * `sequence` must grow with every push of a client; the server remembers a window of recent
 * sequences per client. The server does not apply a push under an id that was used before. If the
 * bytes are the same, the push is a repeat and receives the reply of the first push. Otherwise it
 * fails with DUPLICATE. `client` must therefore be unique to each start of each process. A client
 * must not change its name more often: the server limits the names of each tenant.
 */
struct PushId {
  1: required string client (text = "name")
  2: required i64 sequence
}

/**
 * The update rule of parameters or of table rows. The formulas are in
 * runtime/device/cpu/optimizer/.
 */
enum OptimizerKind {
  /** uses momentum, weight_decay */
  SGD = 1,
  /** uses weight_decay, epsilon */
  ADAGRAD = 2,
  /** one accumulator per row; uses weight_decay, epsilon */
  ROWWISE_ADAGRAD = 3,
  /** uses weight_decay, epsilon, beta1, beta2 */
  ADAM = 4,
  /** uses weight_decay, l1, l2, beta */
  FTRL = 5,
  /** decoupled weight decay; uses weight_decay, epsilon, beta1, beta2 */
  ADAMW = 6,
  /** SGD with Nesterov momentum; uses momentum (default 0.9, above 0), weight_decay */
  NESTEROV = 7
}

/**
 * Parameters of an update rule. The defaults of absent fields are 0 for momentum, weight_decay, l1
 * and l2; 1e-10 for the epsilon of ADAGRAD and ROWWISE_ADAGRAD; 1e-8 for the epsilon of ADAM and
 * ADAMW; 0.9 for beta1; 0.999 for beta2; 1 for beta; and 0.01 for the weight_decay of ADAMW. Except
 * for FTRL and the momentum of NESTEROV (0.9), these are the defaults of PyTorch. A field that the
 * kind does not use must be absent or 0. The server adds weight_decay x value to the gradient,
 * except for ADAMW.
 */
struct Optimizer {
  1: OptimizerKind kind (enum_type = "OptimizerKind")
  2: required double learning_rate (finite = "true")
  3: optional double momentum (finite = "true")
  4: optional double weight_decay (finite = "true")
  5: optional double epsilon (finite = "true")
  6: optional double beta1 (finite = "true")
  7: optional double beta2 (finite = "true")
  8: optional double l1 (finite = "true")
  9: optional double l2 (finite = "true")
  10: optional double beta (finite = "true")
}
