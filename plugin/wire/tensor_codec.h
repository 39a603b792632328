/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tensor, SparseTensor and Gradient of thrift/tensor.thrift, which are read and written with
 * tps_struct_read() and tps_struct_write().
 *
 * Reading. The reader must be positioned before the struct; `path` names the struct in errors. The
 * output must be zero before the call, and the caller must clear it, even after a failure. Errors:
 * TPS_ERROR_INVALID_ARGUMENT, which names the value. A large tensor keeps a reference to its
 * receive buffer; a small one is copied into a buffer of its own. A floating-point tensor in shared
 * memory stays there, where its sender may change it. Integers are copied, and so is every tensor
 * if the reader's `copies_shared` is set. Functions refuse tensors in memory of a device unless
 * their comments say otherwise.
 *
 * The structure of a gradient is checked: shapes against bytes, [rows, dim] against the values, not
 * both dense and sparse. tps_gradient_check() checks the rest. Dense floating-point elements of a
 * gradient may lie in a device's memory.
 *
 * Writing. Elements are not copied: the writer keeps references to their buffers. Elements in a
 * device's memory for which its segments have no room are copied to the host. If that fails, the
 * message cannot be ended.
 *
 * Elements are little-endian on the wire and in memory: this code is for little-endian machines.
 * Thread: any.
 */

#pragma once

#include "plugin/wire/descriptor.h"
#include "runtime/tensor/gradient.h"
#include "runtime/tensor/optimizer.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Writes a Tensor whose elements the writer borrows until it releases them (writer.h). */
void tps_tensor_encode_borrowed (TpsWriter *out, TpsTensorView view);

/* Reads a Tensor, but refuses a different dtype or number of dimensions:
 * "PATH is FLOAT32 [3], expected INT64 [nnz]", where `expected` is the end of the text. */
gboolean tps_tensor_decode_as (TpsReader *in, const TpsFieldPath *path, TpsDType dtype,
                               guint n_dims, const gchar *expected, TpsTensor *tensor,
                               GError **error);

/* Tensors in C structs, besides tps_tensor_struct: TpsTensor. */
extern const TpsStruct tps_kept_tensor_struct; /* outlives its call: copied from shared memory */
/* Floating point only; the elements may lie in a device's memory. */
extern const TpsStruct tps_device_tensor_struct;
extern const TpsStruct tps_indices_struct; /* INT64 [nnz] */

/* The n_dims and dims of a TpsShape. */
extern const TpsValueKind tps_kind_dims;

typedef struct
{
  guint n_tensors;
  TpsTensor *tensors;
} TpsTensorList;

void tps_tensor_list_clear (TpsTensorList *list);

/* A SparseTensor as a SPARSE gradient of weight 1. */
extern const TpsStruct tps_row_gradient_struct; /* with INT64 [nnz] indices */

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTensorList, tps_tensor_list_clear)

G_END_DECLS
