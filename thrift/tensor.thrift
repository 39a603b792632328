// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Tensors, gradients and what is done with them: the types that every ThriftPS service shares.
//
// The names and the field numbers of all files in this folder are the public wire contract. Fields
// are added as `optional` with new numbers; nothing is ever renumbered, retyped or reused.
//
// Rules that hold in every file:
//  * A field of an enum type is never `required`: generated Java fails on a value it does not know.
//  * Names (tables, parameters, keys, clients) match [A-Za-z0-9_.:/-]{1,255}.
//  * A missing argument, an unknown enum value, a shape that does not match its bytes, a negative
//    or overflowing dimension is answered with ServiceError INVALID_ARGUMENT, which names it.

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

// Element type of a tensor. Bytes are little-endian on the wire, whatever the machines are.
enum DType {
  FLOAT32 = 1,  // IEEE 754 binary32
  FLOAT64 = 2,  // IEEE 754 binary64
  FLOAT16 = 3,  // IEEE 754 binary16
  BFLOAT16 = 4, // the upper half of a binary32
  INT32 = 5,    // two's complement
  INT64 = 6     // two's complement
}

// Bytes in memory that both sides of one connection map. `segment` is only valid on the connection
// it was opened on; offset and length are in bytes. Rules: memory.thrift.
struct SharedSlice {
  1: required i64 segment
  2: required i64 offset
  3: required i64 length
}

// A dense tensor, row-major (the last dimension varies fastest). The number of bytes is the product
// of `shape` times the element size. A scalar has an empty shape.
struct Tensor {
  1: DType dtype
  2: required list<i64> shape        // every dimension >= 0, at most 8 dimensions
  3: optional binary data            // may be absent when there are no elements
  4: optional SharedSlice shared     // instead of `data`
}

// Some rows of a tensor of `shape` = [rows, dim]; the other rows are zero.
struct SparseTensor {
  1: required Tensor indices         // INT64 [nnz], each in [0, rows); duplicates add up
  2: required Tensor values          // [nnz, dim]
  3: required list<i64> shape        // [rows, dim]
}

// One contribution to an average, and the average itself in answers.
struct Gradient {
  1: optional Tensor dense           // exactly one of dense and sparse; neither where weight is 0
  2: optional SparseTensor sparse
  3: optional double weight          // absent = 1; finite, >= 0; 0 = takes part without data
}

// Names one push so that it is applied once however often it is sent. `sequence` counts up per
// client; a window of recent sequences is remembered per client. The name must be unique to each
// process and each of its starts: an id that another process has used is DUPLICATE, or, with the
// same bytes, a repeat that is not applied.
struct PushId {
  1: required string client
  2: required i64 sequence
}

// The update rule of parameters or of table rows; the formulas stand in
// runtime/device/cpu/optimizer/.
enum OptimizerKind {
  SGD = 1,              // uses momentum, weight_decay
  ADAGRAD = 2,          // uses weight_decay, epsilon
  ROWWISE_ADAGRAD = 3,  // one accumulator a row; uses weight_decay, epsilon
  ADAM = 4,             // uses weight_decay, epsilon, beta1, beta2
  FTRL = 5              // uses weight_decay, l1, l2, beta
}

// An absent field has the default of the same optimizer in PyTorch (ROWWISE_ADAGRAD: of ADAGRAD;
// FTRL: of the paper that defines it). A field that the kind does not use must be absent or 0.
// weight_decay x value is added to the gradient.
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
