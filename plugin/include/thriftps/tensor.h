/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tensors: dense, row-major, little-endian. A view (TpsTensorView) borrows its elements, and an
 * owner (TpsTensor) holds a reference to a buffer that contains them:
 *
 *   g_auto (TpsTensor) tensor = { 0 };
 *
 *   tps_tensor_init_2d (&tensor, TPS_DTYPE_FLOAT32, 8, 64);
 *   memset (tps_tensor_data (&tensor), 0, tps_shape_n_bytes (&tensor.shape));
 *
 * Both are plain values. A view is passed and returned by value. An owner lives in the caller's
 * storage and must be cleared with tps_tensor_clear(). Owners of the same elements share one buffer
 * (tps_tensor_init_ref()), so a tensor can be kept without a copy. Thread: different owners may be
 * used on different threads; writers of elements must coordinate with readers.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* ---- element types and shapes ---------------------------------------------------------------- */

/* Element types. The numeric values are part of the wire format. */
typedef enum
{
  TPS_DTYPE_FLOAT32 = 1,
  TPS_DTYPE_FLOAT64 = 2,
  TPS_DTYPE_FLOAT16 = 3,
  TPS_DTYPE_BFLOAT16 = 4,
  TPS_DTYPE_INT32 = 5,
  TPS_DTYPE_INT64 = 6,
} TpsDType;

/* Returns the size of an element in bytes. `dtype` must be valid. */
gsize tps_dtype_size (TpsDType dtype);

/* Returns the name, such as "FLOAT32", or "UNKNOWN" for an invalid value. Static. */
const gchar *tps_dtype_name (TpsDType dtype);

#define TPS_TENSOR_MAX_DIMS 8

typedef struct
{
  TpsDType dtype;
  guint n_dims;
  gint64 dims[TPS_TENSOR_MAX_DIMS];
} TpsShape;

/* Initialises a shape. `what` names the value in error messages. Errors: TPS_ERROR_INVALID_ARGUMENT
 * (an unknown dtype, too many dimensions, a negative dimension, or a number of elements or bytes
 * that overflows). */
gboolean tps_shape_init (TpsShape *shape, gint dtype, guint n_dims, const gint64 *dims,
                         const gchar *what, GError **error);

/* Return the number of elements or of bytes of a valid shape. tps_shape_equal() returns TRUE if
 * dtypes and dimensions are equal. */
gint64 tps_shape_n_elems (const TpsShape *shape);
gsize tps_shape_n_bytes (const TpsShape *shape);
gboolean tps_shape_equal (const TpsShape *a, const TpsShape *b);

/* Describes a shape: "FLOAT32 [30, 100]". Owned by the caller. */
gchar *tps_shape_to_string (const TpsShape *shape);

/* ---- buffers --------------------------------------------------------------------------------- */

/* Reference-counted bytes at 64-byte alignment. */
typedef struct TpsBuffer TpsBuffer;
typedef struct TpsDevice TpsDevice; /* memory other than the host's */

/* Returns a buffer with undefined contents from the default pool, to which the caller owns a
 * reference. Aborts if there is no memory, as g_malloc() does. Must not be used for sizes that a
 * peer chooses. Thread: any. */
TpsBuffer *tps_buffer_new (gsize n_bytes);

/* Wraps memory of the caller, which lies in memory of `device` (NULL = host memory). `free_func`
 * (may be NULL) is called with `user_data` when the last reference is released, on the thread that
 * releases it. Thread: any. */
TpsBuffer *tps_buffer_new_foreign (gpointer data, gsize n_bytes, TpsDevice *device,
                                   GDestroyNotify free_func, gpointer user_data);

/* Takes and releases a reference. Thread: any. */
TpsBuffer *tps_buffer_ref (TpsBuffer *buffer);
void tps_buffer_unref (TpsBuffer *buffer);

/* Return the data and their size in bytes. The data are borrowed. */
guint8 *tps_buffer_get_data (const TpsBuffer *buffer);
gsize tps_buffer_get_size (const TpsBuffer *buffer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBuffer, tps_buffer_unref)

/* ---- tensors --------------------------------------------------------------------------------- */

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

/* Return the elements, borrowed from the tensor. They are NULL if the tensor has no buffer. */
gpointer tps_tensor_data (const TpsTensor *tensor);
TpsTensorView tps_tensor_view (const TpsTensor *tensor);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTensor, tps_tensor_clear)

/* ---- gradients ------------------------------------------------------------------------------- */

/* Contributions to an average, and the average itself. */
typedef enum
{
  TPS_GRADIENT_NONE = 0,   /* the trainer takes part without data; weight is 0 */
  TPS_GRADIENT_DENSE = 1,  /* a whole tensor */
  TPS_GRADIENT_SPARSE = 2, /* some rows of a [rows, dim] matrix */
} TpsGradientKind;

/* A plain value that owns its tensors. An all-zero value is TPS_GRADIENT_NONE with weight 0. Data
 * with weight 0 is allowed: its shape is checked, but its elements do not change the average. */
typedef struct
{
  TpsGradientKind kind;
  gdouble weight;    /* 0, or FLT_MIN to FLT_MAX */
  TpsTensor dense;   /* DENSE: any shape, floating point */
  TpsTensor indices; /* SPARSE: INT64 [nnz] */
  TpsTensor values;  /* SPARSE: [nnz, dim], floating point */
  gint64 rows;       /* SPARSE: number of rows of the whole matrix */
} TpsGradient;

/* Releases the tensors; the gradient is NONE afterwards. */
void tps_gradient_clear (TpsGradient *gradient);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsGradient, tps_gradient_clear)

G_END_DECLS
