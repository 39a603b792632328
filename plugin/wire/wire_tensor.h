/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/tensor.thrift: Tensor, SparseTensor, Gradient, PushId and Optimizer.
 *
 * Decoding: the reader stands before the struct; `path` names it in errors. What is filled must be zero before, and is
 * cleared by the caller, after a failure too. Errors: TPS_ERROR_INVALID_ARGUMENT, naming the value.
 * A large tensor keeps a reference of the buffer that it was received into; a small one is copied into a buffer of its own.
 * One in shared memory lies there, where its sender may change it: floating point only, integers are copied. That may be memory
 * of a device where it says so; elsewhere such tensors are refused.
 *
 * Encoding: writes the struct alone, without a field header. Elements go out from where they lie: the writer keeps
 * references of their buffers. What lies in a device's memory and finds no room in segments of it goes by way of the host, and
 * where that fails the message cannot be ended.
 *
 * Elements are little-endian on the wire and in memory: this code is for little-endian machines. Thread: any.
 */

#pragma once

#include "plugin/frame/writer.h"
#include "plugin/wire/fields.h"
#include "runtime/tensor/gradient.h"
#include "runtime/tensor/optimizer.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

gboolean tps_tensor_decode (TpsReader *in, const TpsFieldPath *path, TpsTensor *tensor,
                            GError **error);
void tps_tensor_encode (TpsWriter *out, const TpsTensor *tensor);

/* The elements are borrowed until the writer lets go of them, see writer.h. */
void tps_tensor_encode_borrowed (TpsWriter *out, TpsTensorView view);

/* A TpsFieldRead for fields of type Tensor. */
gboolean tps_field_read_tensor (TpsReader *in, const TpsFieldPath *path, gpointer tensor,
                                GError **error);

/* The same for tensors that outlive their call: what lies in shared memory is copied. */
gboolean tps_field_read_kept_tensor (TpsReader *in, const TpsFieldPath *path, gpointer tensor,
                                     GError **error);

/* Structure only: shapes against bytes, [rows, dim] against the values, not both dense and sparse. What
 * tps_gradient_check() checks is left to it. Dense elements, if floating point, may lie in a device's memory. */
gboolean tps_gradient_decode (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient,
                              GError **error);
void tps_gradient_encode (TpsWriter *out, const TpsGradient *gradient);

/* A SparseTensor: a SPARSE gradient of weight 1. */
gboolean tps_sparse_gradient_decode (TpsReader *in, const TpsFieldPath *path, TpsGradient *gradient,
                                     GError **error);
void tps_sparse_gradient_encode (TpsWriter *out, const TpsGradient *gradient);

/* Names one push; see tensor.thrift. */
typedef struct
{
  gchar *client;
  gint64 sequence;
} TpsPushId;

gboolean tps_push_id_decode (TpsReader *in, const TpsFieldPath *path, TpsPushId *push,
                             GError **error);
void tps_push_id_encode (TpsWriter *out, const TpsPushId *push);
void tps_push_id_clear (TpsPushId *push);

/* Absent numbers are NAN, given ones finite. */
gboolean tps_optimizer_spec_decode (TpsReader *in, const TpsFieldPath *path, TpsOptimizerSpec *spec,
                                    GError **error);
void tps_optimizer_spec_encode (TpsWriter *out, const TpsOptimizerSpec *spec);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsPushId, tps_push_id_clear)

G_END_DECLS
