/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tensors: dense, row-major, little-endian. Views borrow, owners hold a reference; they are
 * different types.
 *
 * Both are plain values: a view is passed and returned by value; an owner lives in the caller's
 * storage and is emptied with tps_tensor_clear().
 */

#pragma once

#include <glib.h>

#include "runtime/base/buffer.h"
#include "runtime/tensor/dtype.h"

G_BEGIN_DECLS

#define TPS_TENSOR_MAX_DIMS 8

typedef struct
{
  TpsDType dtype;
  guint n_dims;
  gint64 dims[TPS_TENSOR_MAX_DIMS];
} TpsShape;

/* Borrowed elements. `data` may be NULL where there are none. */
typedef struct
{
  TpsShape shape;
  const void *data;
} TpsTensorView;

/* Owned elements: bytes [offset, offset + tps_shape_n_bytes()) of `buffer`. All zero = no tensor
 * (dtype 0). `offset` keeps the elements aligned to their size. */
typedef struct
{
  TpsShape shape;
  TpsBuffer *buffer;
  gsize offset;
} TpsTensor;

/* A shape from its parts. Errors: TPS_ERROR_INVALID_ARGUMENT (unknown dtype, too many dimensions, a
 * negative one, an element or byte count that overflows), naming `what`. */
gboolean tps_shape_init (TpsShape *shape, gint dtype, guint n_dims, const gint64 *dims,
                         const gchar *what, GError **error);

gint64 tps_shape_n_elems (const TpsShape *shape);
gsize tps_shape_n_bytes (const TpsShape *shape);
gboolean tps_shape_equal (const TpsShape *a, const TpsShape *b);

/* "FLOAT32 [30, 100]"; owned by the caller. */
gchar *tps_shape_to_string (const TpsShape *shape);

/* Uninitialised elements from the default pool. `shape` must be valid. */
void tps_tensor_init (TpsTensor *tensor, const TpsShape *shape);
void tps_tensor_init_zeroed (TpsTensor *tensor, const TpsShape *shape);

/* Shorthands for tests and layers: FLOAT32 [dim0] / [dim0, dim1]. */
void tps_tensor_init_1d (TpsTensor *tensor, TpsDType dtype, gint64 dim0);
void tps_tensor_init_2d (TpsTensor *tensor, TpsDType dtype, gint64 dim0, gint64 dim1);

/* Takes over the caller's reference of `buffer`. */
void tps_tensor_init_take (TpsTensor *tensor, const TpsShape *shape, TpsBuffer *buffer,
                           gsize offset);

/* Another owner of the same elements. */
void tps_tensor_init_ref (TpsTensor *tensor, const TpsTensor *other);

/* Another owner of a copy. */
void tps_tensor_init_copy (TpsTensor *tensor, TpsTensorView view);

void tps_tensor_clear (TpsTensor *tensor);

/* Moves ownership: `from` is empty afterwards, what `to` held is released. */
void tps_tensor_move (TpsTensor *to, TpsTensor *from);

gboolean tps_tensor_is_empty (const TpsTensor *tensor); /* holds no tensor at all */
gpointer tps_tensor_data (const TpsTensor *tensor);
TpsTensorView tps_tensor_view (const TpsTensor *tensor);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTensor, tps_tensor_clear)

G_END_DECLS
