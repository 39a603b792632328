/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/tensor.thrift: Tensor, SparseTensor, Gradient, PushId and Optimizer.
 *
 * Decoding: the reader stands before the struct; `path` names it in errors. What is filled must be
 * zero before, and is cleared by the caller, after a failure too. Errors:
 * TPS_ERROR_INVALID_ARGUMENT, naming the value. A large tensor keeps a reference of the buffer that
 * it was received into; a small one is copied into a buffer of its own. One in shared memory lies
 * there, where its sender may change it: floating point only, integers are copied, and so is
 * everything where the reader says so. That may be memory of a device where it says so; elsewhere
 * such tensors are refused.
 *
 * Encoding: writes the struct alone, without a field header. Elements go out from where they lie:
 * the writer keeps references of their buffers. What lies in a device's memory and finds no room in
 * segments of it goes by way of the host, and where that fails the message cannot be ended.
 *
 * Elements are little-endian on the wire and in memory: this code is for little-endian machines.
 * Thread: any.
 */

#pragma once

#include "plugin/wire/value_kinds.h"
#include "runtime/tensor/gradient.h"
#include "runtime/tensor/optimizer.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

gboolean tps_tensor_decode (TpsReader *in, const TpsFieldPath *path, TpsTensor *tensor,
                            GError **error);
void tps_tensor_encode (TpsWriter *out, const TpsTensor *tensor);

/* The elements are borrowed until the writer lets go of them, see writer.h. */
void tps_tensor_encode_borrowed (TpsWriter *out, TpsTensorView view);

/* The same, of one dtype and number of dimensions: "PATH is FLOAT32 [3], expected INT64 [nnz]". */
gboolean tps_tensor_decode_as (TpsReader *in, const TpsFieldPath *path, TpsDType dtype,
                               guint n_dims, const gchar *expected, TpsTensor *tensor,
                               GError **error);

/* Tensors in C structs: TpsTensor. */
extern const TpsStruct tps_tensor_struct;
extern const TpsStruct tps_kept_tensor_struct; /* outlives its call: copied from shared memory */
extern const TpsStruct
    tps_device_tensor_struct;              /* may lie in a device's memory, if floating point */
extern const TpsStruct tps_indices_struct; /* INT64 [nnz] */

extern const TpsEnum tps_dtype_enum;

/* n_dims and dims of a TpsShape. */
extern const TpsValueKind tps_kind_dims;

typedef struct
{
  guint n_tensors;
  TpsTensor *tensors;
} TpsTensorList;

void tps_tensor_list_clear (TpsTensorList *list);

/* Of a TpsTensorList, or a guint and a TpsTensor * like it. */
extern const TpsList tps_tensors;

/* Structure only: shapes against bytes, [rows, dim] against the values, not both dense and sparse.
 * The rest is left to tps_gradient_check(). Dense elements, if floating point, may lie in a
 * device's memory. */
gboolean tps_gradient_decode (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient,
                              GError **error);
void tps_gradient_encode (TpsWriter *out, const TpsGradient *gradient);
extern const TpsStruct tps_gradient_struct; /* the same as a descriptor */

/* A SparseTensor: a SPARSE gradient of weight 1. */
gboolean tps_sparse_gradient_decode (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient,
                                     GError **error);
void tps_sparse_gradient_encode (TpsWriter *out, const TpsGradient *gradient);
extern const TpsStruct tps_row_gradient_struct; /* with INT64 [nnz] indices */

/* Names one push; see tensor.thrift. An optional one is set if it has a client. */
typedef struct
{
  gchar *client;
  gint64 sequence;
} TpsPushId;

void tps_push_id_clear (TpsPushId *push);
extern const TpsStruct tps_push_id_struct;

/* TpsOptimizerSpec: missing numbers are NAN, given ones finite. */
extern const TpsStruct tps_optimizer_struct;

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTensorList, tps_tensor_list_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsPushId, tps_push_id_clear)

G_END_DECLS
