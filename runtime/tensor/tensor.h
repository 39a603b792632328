/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tensors: dense, row-major, little-endian. A view (TpsTensorView) borrows its elements and is
 * passed by value; an owner (TpsTensor) holds a reference to them, lives in the caller's storage
 * and must be cleared with tps_tensor_clear(). */

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

/* Borrowed elements. `data` may be NULL if there are no elements. */
typedef struct
{
  TpsShape shape;
  const void *data;
} TpsTensorView;

/* Owned elements: bytes [offset, offset + tps_shape_n_bytes()) of `buffer`. An all-zero value
 * (dtype 0) is the empty tensor. `offset` must be a multiple of the element size. */
typedef struct
{
  TpsShape shape;
  TpsBuffer *buffer;
  gsize offset;
} TpsTensor;

/* Initialises a shape. `what` names it in messages. Errors: INVALID_ARGUMENT (an unknown dtype, too
 * many dimensions, a negative one, or elements or bytes that overflow). */
gboolean tps_shape_init (TpsShape *shape, gint dtype, guint n_dims, const gint64 *dims,
                         const gchar *what, GError **error);

/* Return the number of elements or of bytes of a valid shape. tps_shape_equal() returns TRUE if
 * dtypes and dimensions are equal. */
gint64 tps_shape_n_elems (const TpsShape *shape);
gsize tps_shape_n_bytes (const TpsShape *shape);
gboolean tps_shape_equal (const TpsShape *a, const TpsShape *b);

/* Describes a shape: "FLOAT32 [30, 100]". Owned by the caller. */
gchar *tps_shape_to_string (const TpsShape *shape);

/* Allocate the elements of a tensor from the default pool: uninitialised, or zero. `shape` must be
 * valid. The caller owns the tensor. */
void tps_tensor_init (TpsTensor *tensor, const TpsShape *shape);
void tps_tensor_init_zeroed (TpsTensor *tensor, const TpsShape *shape);

/* As tps_tensor_init(), for the shapes [dim0] and [dim0, dim1]. */
void tps_tensor_init_1d (TpsTensor *tensor, TpsDType dtype, gint64 dim0);
void tps_tensor_init_2d (TpsTensor *tensor, TpsDType dtype, gint64 dim0, gint64 dim1);

/* Initialises a tensor whose elements start at byte `offset` of `buffer`. Takes over the caller's
 * reference to `buffer`. */
void tps_tensor_init_take (TpsTensor *tensor, const TpsShape *shape, TpsBuffer *buffer,
                           gsize offset);

/* Initialises `tensor` as a further owner of the elements of `other`. */
void tps_tensor_init_ref (TpsTensor *tensor, const TpsTensor *other);

/* Initialises `tensor` as the owner of a copy of the elements of `view`. */
void tps_tensor_init_copy (TpsTensor *tensor, TpsTensorView view);

/* Releases the elements; the tensor is empty afterwards. */
void tps_tensor_clear (TpsTensor *tensor);

/* Moves the contents of `from` to `to`. `from` is empty afterwards; the previous elements of `to`
 * are released. */
void tps_tensor_move (TpsTensor *to, TpsTensor *from);

/* Returns TRUE for the all-zero value. A tensor that merely has no elements is not empty. */
gboolean tps_tensor_is_empty (const TpsTensor *tensor);

/* Return the elements, borrowed from the tensor. They are NULL if the tensor has no buffer. */
gpointer tps_tensor_data (const TpsTensor *tensor);
TpsTensorView tps_tensor_view (const TpsTensor *tensor);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTensor, tps_tensor_clear)

G_END_DECLS
