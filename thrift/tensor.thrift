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

// The element type of a tensor. Elements are little-endian on the wire, independent of the byte
// order of either machine.
enum DType {
  FLOAT32 = 1,  // IEEE 754 binary32
  FLOAT64 = 2,  // IEEE 754 binary64
  FLOAT16 = 3,  // IEEE 754 binary16
  BFLOAT16 = 4, // the upper half of a binary32
  INT32 = 5,    // two's complement
  INT64 = 6     // two's complement
}

// A range of a shared-memory segment, which both ends of a connection map. `segment` is valid only
// on the connection that opened it; offset and length are in bytes. memory.thrift has the rules.
struct SharedSlice {
  1: required i64 segment
  2: required i64 offset
  3: required i64 length
}

// A dense tensor, row-major (the last dimension varies fastest). Its size in bytes is the product
// of `shape` times the element size. A scalar has an empty shape. Exactly one of `data` and
// `shared` must be set, unless there are no elements.
struct Tensor {
  1: DType dtype
  2: required list<i64> shape        // every dimension >= 0, at most 8 dimensions
  3: optional binary data            // the elements; may be absent if there are none
  4: optional SharedSlice shared     // a slice with the elements, instead of `data`
}

// Some rows of a tensor of `shape` [rows, dim]. All other rows are zero.
struct SparseTensor {
  1: required Tensor indices         // INT64 [nnz], each in [0, rows); duplicates are added up
  2: required Tensor values          // [nnz, dim]
  3: required list<i64> shape        // [rows, dim]
}

// A trainer's contribution to an average, and the type of the average itself.
struct Gradient {
  // At most one of dense and sparse may be set. If neither is set, the weight must be 0.
  1: optional Tensor dense
  2: optional SparseTensor sparse
  // Default 1. Must be 0, or a positive FLOAT32 that is not subnormal. With 0, the trainer takes
  // part in the round, but adds nothing to the sum: only the kind, shape and dtype of its data are
  // used.
  3: optional double weight
}

// Identifies a push, so that the server applies it once even if the client sends it several times.
// `sequence` must grow with every push of a client; the server remembers a window of recent
// sequences per client. The server does not apply a push under an id that was used before. If the
// bytes are the same, the push is a repeat and receives the reply of the first push. Otherwise it
// fails with DUPLICATE. `client` must therefore be unique to each start of each process. A client
// must not change its name more often: the server limits the names of each tenant.
struct PushId {
  1: required string client
  2: required i64 sequence
}

// The update rule of parameters or of table rows. The formulas are in
// runtime/device/cpu/optimizer/.
enum OptimizerKind {
  SGD = 1,              // uses momentum, weight_decay
  ADAGRAD = 2,          // uses weight_decay, epsilon
  ROWWISE_ADAGRAD = 3,  // one accumulator per row; uses weight_decay, epsilon
  ADAM = 4,             // uses weight_decay, epsilon, beta1, beta2
  FTRL = 5              // uses weight_decay, l1, l2, beta
}

// Parameters of an update rule. The defaults of absent fields are 0 for momentum, weight_decay, l1
// and l2; 1e-10 for the epsilon of ADAGRAD and ROWWISE_ADAGRAD; 1e-8 for the epsilon of ADAM; 0.9
// for beta1; 0.999 for beta2; and 1 for beta. For SGD, ADAGRAD and ADAM, these are the defaults of
// PyTorch. A field that the kind does not use must be absent or 0. The server adds weight_decay x
// value to the gradient.
struct Optimizer {
  1: OptimizerKind kind
  2: required double learning_rate
  3: optional double momentum
  4: optional double weight_decay
  5: optional double epsilon
  6: optional double beta1
  7: optional double beta2
  8: optional double l1
  9: optional double l2
  10: optional double beta
}
