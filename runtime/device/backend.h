/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Devices: one table of functions each, the same meaning on all of them (tests/conformance).
 *
 * Way of use: tps_device_find() -> stream_new -> memory by alloc, or the caller's own where the
 * device reads host memory -> operations on the stream -> stream_sync, which says whether all went
 * well.
 *
 * Operations enqueue only: they return before the work is done (on the CPU, after), never block and
 * never fail in place. What they were given, memory and `args` fields that point to memory, stays
 * borrowed and unchanged until the stream has passed them; the args struct itself is copied. An
 * operation that fails makes its stream bad: it and all later ones do nothing more, and
 * stream_sync, event_sync and stream_wait_event report the first failure, as TPS_ERROR_DEVICE_LOST.
 *
 * Arguments are checked by the caller: an index or target out of range, overlapping arrays where
 * that is not allowed, a dtype that a slot does not list are bugs. Shapes may be empty: then
 * nothing is done, and pointers may be NULL.
 *
 * Bits: everything but gemm, softmax, losses (not L1's gradient) and embeddings with `is_any_order`
 * gives the same bits on every device of the same inputs: each element is computed in the order
 * that its slot states, each operation rounds once, nothing is contracted to a fused multiply-add.
 * Which NaN a NaN is is not promised.
 *
 * Sums "as a tree": a list of terms is cut into chunks of TPS_SUM_CHUNK neighbours, of which the
 * last one may be shorter; the terms of a chunk are added from its first to its last. The sums of
 * the chunks are a list, which is added in the same way, until one sum is left. So a list of one
 * chunk is added one by one, and a longer one may be added by many threads, with the same bits
 * everywhere.
 *
 * Thread: a stream one thread at a time; devices and everything else any.
 */

#pragma once

#include "runtime/base/buffer.h"
#include "runtime/tensor/dtype.h"
#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

#define TPS_SUM_CHUNK 32

typedef struct TpsStream TpsStream;
typedef struct TpsEvent TpsEvent;

typedef enum
{
  TPS_POOLING_SUM = 1,
  TPS_POOLING_MEAN = 2,
  TPS_POOLING_MAX = 3,
} TpsPooling; /* the numbers are those of the wire */

/* Bags of rows of a FLOAT32 [rows, dim] table. Bag b has indices [offsets[b], offsets[b + 1]), the
 * last one up to n_indices; where offsets is NULL, all bags have n_indices / n_bags. An empty bag
 * gives zeros. */
typedef struct
{
  gint64 rows, dim;
  const gint64 *indices; /* [n_indices], in [0, rows) */
  gsize n_indices;
  const gint64 *offsets; /* [n_bags], ascending from 0, at most n_indices; or NULL */
  gsize n_bags;
  const gfloat *weights; /* [n_indices], a factor for each row, SUM only; or NULL */
  TpsPooling pooling;
  /* Equal ids may be combined and rows added in any order, which is faster; bits then differ
   * between devices. */
  gboolean is_any_order;
} TpsBags;

typedef struct
{
  gboolean transpose_a, transpose_b;
  gsize m, n, k;
  gfloat alpha, beta;
  const gfloat *a; /* [m, k], or [k, m] where transpose_a */
  const gfloat *b; /* [k, n], or [n, k] where transpose_b */
  gfloat *c;       /* [m, n]; not read where beta is 0; overlaps neither a nor b */
} TpsGemm;

/* One step of SGD as torch.optim.SGD without dampening: d = gradient + weight_decay * value;
 * velocity = momentum * velocity + d; value -= learning_rate * velocity. Where momentum is 0, d
 * itself is used and velocity may be NULL. Factors are rounded to float first. */
typedef struct
{
  gdouble learning_rate, momentum, weight_decay;
} TpsSgdFactors;

/* Rows that get a step of an optimizer. */
typedef struct
{
  const gint64 *indices; /* [n_rows] unique; NULL: rows 0 … n_rows - 1 */
  gsize n_rows, dim;
  gfloat *values;          /* [rows, dim] */
  gfloat *state;           /* [rows, tps_optimizer_state_per_row()]; NULL where that is 0 */
  const gfloat *gradients; /* [n_rows, dim] */
} TpsRowUpdate;

#define TPS_EXPORT_HANDLE_BYTES 64
#define TPS_DEVICE_UUID_BYTES 16

typedef struct
{
  const gchar *name; /* "cpu" */

  /* -- memory -- */

  /* A buffer in the device's memory, undefined contents, 64-byte alignment at least; owned by the
   * caller. May block. NULL with RESOURCE_EXHAUSTED, or DEVICE_LOST. */
  TpsBuffer *(*alloc) (TpsDevice *device, gsize n_bytes, GError **error);
  /* A buffer in host memory that `copy` of this device moves to and from without staging it first,
   * and that all its operations read and write where it lies, over the bus. Otherwise as alloc. */
  TpsBuffer *(*alloc_host) (TpsDevice *device, gsize n_bytes, GError **error);

  /* -- memory that another process of this machine uses too; all NULL on devices that have none
   * -- */

  /* As alloc, but of memory that another process finds by `handle` [TPS_EXPORT_HANDLE_BYTES], which
   * is filled. Every process that knows the handle may read and write all of it, and must release
   * it before the buffer's last reference is dropped. UNAVAILABLE: this machine does not let
   * processes share memory. */
  TpsBuffer *(*alloc_exported) (TpsDevice *device, gsize n_bytes, guint8 *handle, GError **error);
  /* The memory that another process has exported, with the size it has there, which is believed; as
   * one of `device`, where it may lie on a peer of it. It lives at most as long as that process.
   * UNAVAILABLE: no such memory, or of this process, or it cannot be reached from here. May
   * block. */
  TpsBuffer *(*open_exported) (TpsDevice *device, const guint8 *handle, gsize n_bytes,
                               GError **error);
  /* What tells this device from all others, in every process: `uuid` [TPS_DEVICE_UUID_BYTES]. Does
   * not block. */
  void (*get_uuid) (TpsDevice *device, guint8 *uuid);

  /* -- streams and events -- */

  /* A queue of operations that run one after the other. Owned by the caller. NULL with DEVICE_LOST.
   * May block. */
  TpsStream *(*stream_new) (TpsDevice *device, GError **error);
  /* Waits for what is queued; errors are dropped. */
  void (*stream_free) (TpsStream *stream);
  /* Blocks until everything queued is done. DEVICE_LOST when something failed, now and from then
   * on. */
  gboolean (*stream_sync) (TpsStream *stream, GError **error);

  /* A point in a stream; not recorded at first, which counts as reached. Owned by the caller. */
  TpsEvent *(*event_new) (TpsDevice *device, GError **error);
  void (*event_free) (TpsEvent *event);
  /* Enqueues: the event is reached when everything queued before is done. May be recorded again. */
  void (*event_record) (TpsEvent *event, TpsStream *stream);
  /* Enqueues: later operations of `stream` wait for the event. */
  void (*stream_wait_event) (TpsStream *stream, TpsEvent *event);
  /* Whether the event is reached; does not block. */
  gboolean (*event_query) (TpsEvent *event);
  /* Blocks until the event is reached. */
  gboolean (*event_sync) (TpsEvent *event, GError **error);
  /* Milliseconds from `start` to `end`, as the device saw them. Both of one device, recorded and
   * reached, else INVALID_ARGUMENT; DEVICE_LOST. */
  gboolean (*events_elapsed) (TpsEvent *start, TpsEvent *end, gdouble *ms, GError **error);

  /* -- operations; all enqueue only -- */

  /* Bytes between any two of: host memory, this device's. No overlap. Host memory should be
   * page-locked where the device is not the host, or the call may block while it is staged. */
  void (*copy) (TpsStream *stream, gpointer to, gconstpointer from, gsize n_bytes);
  /* Sets bytes to 0. */
  void (*zero) (TpsStream *stream, gpointer values, gsize n_bytes);
  /* values[i] = value, converted to `dtype` (any). */
  void (*fill) (TpsStream *stream, TpsDType dtype, gpointer values, gdouble value, gsize n_elems);
  /* to[i] = from[i]; all pairs of dtypes. One rounding, to nearest even; to an integer towards
   * zero, saturated, NaN gives
   * 0. No overlap, unless both are the same array of the same dtype. */
  void (*cast) (TpsStream *stream, TpsDType to_dtype, gpointer to, TpsDType from_dtype,
                gconstpointer from, gsize n_elems);

  /* Sums of gradients are FLOAT64 for FLOAT64 and FLOAT32 for FLOAT32, FLOAT16, BFLOAT16; `dtype`
   * is the gradients'. */

  /* sum[i] += gradient[i]. */
  void (*accumulate) (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                      gsize n_elems);
  /* sum[i] = weight * gradient[i], rounded to the sum's type; starts a sum. Weight 1 copies: -0
   * stays -0. */
  void (*scale) (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                 gdouble weight, gsize n_elems);
  /* sum[i] += weight * gradient[i]: the product is rounded, then the sum. */
  void (*scale_accumulate) (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                            gdouble weight, gsize n_elems);
  /* average[i] = sum[i] / divisor, rounded once, to `dtype`. May be in place where the types are
   * equal. */
  void (*divide) (TpsStream *stream, TpsDType dtype, gpointer average, gconstpointer sum,
                  gdouble divisor, gsize n_elems);

  /* Combines rows of equal id: ids come out ascending and unique, each row the sum of its rows in
   * the order given, as a tree, in the sum's type. `values` [n_rows, dim] of `dtype`;
   * `unique_indices` [n_rows] and `sums`
   * [n_rows, dim] are filled up to *n_unique rows. Indices >= 0. *n_unique lies in host memory:
   *               this one blocks until it
   * is known. 0 when the stream is bad. */
  void (*coalesce_rows) (TpsStream *stream, TpsDType dtype, const gint64 *indices,
                         gconstpointer values, gsize n_rows, gsize dim, gint64 *unique_indices,
                         gpointer sums, gsize *n_unique);

  /* output [n_bags, dim]: the sum, mean (sum / count) or maximum of each bag's rows of `table`, in
   * the order given. `argmax` [n_bags, dim], MAX only, else NULL: the row each maximum came from
   * (the first of equal ones; NaN wins), -1 for empty bags. */
  void (*embedding_pool) (TpsStream *stream, const TpsBags *bags, const gfloat *table,
                          gfloat *output, gint64 *argmax);
  /* From the gradient of the output [n_bags, dim] the gradient of the table, dense: table_gradient
   * [rows, dim], wholly written: 0 + what contributes to a row, in the order of the indices, as a
   * tree; for MAX to a cell, in the order of the bags. `argmax`: as it came from embedding_pool. */
  void (*embedding_backward) (TpsStream *stream, const TpsBags *bags, const gfloat *output_gradient,
                              const gint64 *argmax, gfloat *table_gradient);
  /* The same as rows: ids ascending and unique with a row each, to which nothing is added, but for
   * MAX 0 to each cell. `unique_indices` [capacity], `row_gradients` [capacity, dim], capacity at
   * least min (rows, n_indices), for MAX min (rows, n_bags * dim). Blocks, as coalesce_rows. */
  void (*embedding_backward_rows) (TpsStream *stream, const TpsBags *bags,
                                   const gfloat *output_gradient, const gint64 *argmax,
                                   gint64 *unique_indices, gfloat *row_gradients, gsize *n_unique);

  /* c = alpha * op (a) op (b) + beta * c. */
  void (*gemm) (TpsStream *stream, const TpsGemm *gemm);
  /* values [rows, columns] += bias [columns], to each row. */
  void (*bias_add) (TpsStream *stream, gfloat *values, const gfloat *bias, gsize rows,
                    gsize columns);
  /* sums [columns] = 0 + the sum over the rows of values [rows, columns], as a tree. */
  void (*column_sum) (TpsStream *stream, gfloat *sums, const gfloat *values, gsize rows,
                      gsize columns);

  /* output[i] = input[i] > 0 ? input[i] : 0, NaN stays; may be in place. */
  void (*relu) (TpsStream *stream, gfloat *output, const gfloat *input, gsize n_elems);
  /* input_gradient[i] = output[i] > 0 ? output_gradient[i] : 0; may be in place. */
  void (*relu_backward) (TpsStream *stream, gfloat *input_gradient, const gfloat *output_gradient,
                         const gfloat *output, gsize n_elems);

  /* output [rows, columns]: softmax of each row of input; may be in place. columns > 0 where rows >
   * 0. */
  void (*softmax) (TpsStream *stream, gfloat *output, const gfloat *input, gsize rows,
                   gsize columns);
  /* input_gradient = output * (output_gradient - sum of output_gradient * output); may be in
   * place. */
  void (*softmax_backward) (TpsStream *stream, gfloat *input_gradient,
                            const gfloat *output_gradient, const gfloat *output, gsize rows,
                            gsize columns);

  /* Cross-entropy of log-softmax of the rows of input [rows, columns] with classes target [rows],
   * mean over rows; 0 of no rows. *loss lies in memory the device writes; may be NULL.
   * input_gradient [rows, columns]; may be NULL or input. */
  void (*cross_entropy) (TpsStream *stream, gdouble *loss, gfloat *input_gradient,
                         const gfloat *input, const gint64 *target, gsize rows, gsize columns);
  /* Mean of |input - target|; gradient sign (input - target) / n_elems, 0 where equal. As
   * cross_entropy. */
  void (*l1_loss) (TpsStream *stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
                   const gfloat *target, gsize n_elems);

  /* A step for n_elems values. `velocity` [n_elems], zero before the first step; see
   * TpsSgdFactors. */
  void (*sgd) (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values,
               const gfloat *gradient, gfloat *velocity, gsize n_elems);
  /* A step for rows of values [rows, dim] and velocity; `indices` [n_rows] unique, `gradients`
   * [n_rows, dim]. Other rows are not touched: their velocity does not decay and no weight decay is
   * applied to them. */
  void (*sgd_rows) (TpsStream *stream, const TpsSgdFactors *factors, gfloat *values,
                    const gint64 *indices, const gfloat *gradients, gfloat *velocity, gsize n_rows,
                    gsize dim);
  /* Step number `step` (from 1) of an optimizer, by the formula in runtime/device/cpu/optimizer/.
   * `spec` is resolved. Other rows are not touched. */
  void (*update_rows) (TpsStream *stream, const TpsOptimizerSpec *spec, gint64 step,
                       const TpsRowUpdate *update);
} TpsDeviceOps;

/* Implementations embed this as their first member. Lives as long as the process. */
struct TpsDevice
{
  const TpsDeviceOps *ops;
  const gchar *name; /* "cpu"; "cuda:1" */
  gboolean is_host;  /* its memory is host memory: both sides may read and write it */
};

/* Implementations embed these as their first members. */
struct TpsStream
{
  TpsDevice *device;
};

struct TpsEvent
{
  TpsDevice *device;
};

/* NULL with NOT_FOUND, the message lists the known and, for "cuda:0" and the like, says why there
 * is none. Anything but "cpu" looks for drivers at the first call, see
 * runtime/device/device_library.h. Borrowed for ever. Thread: any. */
TpsDevice *tps_device_find (const gchar *name, GError **error);

/* All devices, the CPU first; a NULL-terminated array owned by the caller (g_free). Thread: any. */
TpsDevice **tps_device_list (void);

/* One line for the log: which devices there are beside the CPU, or why there are none. Static.
 * Thread: any. */
const gchar *tps_device_list_summary (void);

G_END_DECLS
