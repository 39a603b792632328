/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Devices: one table of functions for each device, for tables and sums. The functions have the same
 * meaning on all devices (checked by tests/conformance). dense.h has a second table, for trainers.
 *
 * Operations only enqueue work and never fail at the call. They return before the work is done (on
 * the CPU, after). Only `copy` and `copy_rows` may block. An operation borrows its memory,
 * including the memory to which a struct argument points, which must not change until the stream
 * has passed it; the struct itself is copied. A failed operation puts its stream into an error
 * state: it skips all later operations, stream_sync and event_sync report the first failure as
 * DEVICE_LOST, and stream_wait_event passes the state on to the waiting stream.
 *
 * Callers must check arguments: an index or target out of range, a forbidden overlap, or a dtype
 * that a slot does not list is a bug in the caller. Shapes may be empty; then pointers may be NULL.
 *
 * Reproducibility: given the same inputs, every device returns the same bits. Each element is
 * computed in the order that its slot states, each operation rounds once, and nothing is contracted
 * to a fused multiply-add. The payload of a NaN is unspecified.
 *
 * Sums "as a tree": a list of terms is cut into chunks of TPS_SUM_CHUNK neighbours (the last may be
 * shorter), each added from first to last. The sums of the chunks form a new list, which is added
 * in the same way until one sum is left, with the same bits for any number of threads.
 *
 * Thread: a stream must be used by one thread at a time, everything else by any thread. */

#pragma once

#include "runtime/base/buffer.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

#define TPS_SUM_CHUNK 32

typedef struct TpsStream TpsStream;
typedef struct TpsEvent TpsEvent;
typedef struct TpsDenseOps TpsDenseOps;

/* Bags of rows of a [rows, dim] table. Bag b has indices [offsets[b], offsets[b + 1]), the last bag
 * up to n_indices. Without offsets, every bag has n_indices / n_bags. An empty bag's output is
 * 0. */
typedef struct
{
  gint64 rows, dim;
  const gint64 *indices; /* [n_indices], in [0, rows) */
  gsize n_indices;
  const gint64 *offsets; /* [n_bags], ascending from 0, at most n_indices; or NULL */
  gsize n_bags;
  const gfloat *weights; /* [n_indices], a factor for each index, SUM only; or NULL */
  TpsPooling pooling;    /* SUM or MEAN: only clients pool with MAX */
} TpsBags;

/* One step of SGD as torch.optim.SGD without dampening: d = gradient + weight_decay * value;
 * velocity = momentum * velocity + d; value -= learning_rate * velocity. If momentum is 0, d itself
 * is used and velocity may be NULL. Factors are rounded to float first. */
typedef struct
{
  gdouble learning_rate, momentum, weight_decay;
} TpsSgdFactors;

/* The rounding of an updated row of FLOAT16 or BFLOAT16, which is rounded once, from FLOAT32.
 *
 * To nearest: ties to even, overflow to infinity, as `cast` does.
 *
 * Stochastically: a value x between two neighbours a and b of the type, of which a is the one
 * nearer to 0, becomes b if r + floor (2^32 * (x - a) / (b - a)) >= 2^32, where r are 32 random
 * bits, and a otherwise. So random bits are added below the precision of the type, with carry, and
 * the sum is truncated. The expectation of the result is x, except for tiny values of FLOAT16,
 * whose rounding probability is truncated to a multiple of 2^-32. A value that the type can
 * represent never changes, and zeros keep their signs. The largest finite value of the type has no
 * finite neighbour above it, so larger magnitudes are rounded to nearest, as are infinities and
 * NaN.
 *
 * The random bits of column c are a pure function of c, `seed`, the number of the optimizer's step
 * and the number of the row, which is `first` + i * `stride` for row i. With the finalizer mix()
 * and the increment G of SplitMix64 [Steele, Lea, Flood: Fast splittable pseudorandom number
 * generators, 2014], they are the upper half of output number c (from 0) of a SplitMix64 generator
 * whose state is
 *
 *   mix ((mix ((mix (seed + G) ^ step) + G) ^ number) + G)
 *
 * runtime/device/cpu/kernels/stochastic_bits.h is the reference implementation. */
typedef struct
{
  gboolean is_stochastic; /* FALSE: to nearest, and the other fields are not used */
  gint64 seed;
  gint64 first, stride;
} TpsRowRounding;

/* The rows that an optimizer step updates. Rows of FLOAT16 and BFLOAT16 are converted to FLOAT32,
 * updated and rounded once. */
typedef struct
{
  const gint64 *indices; /* [n_rows], unique; NULL selects rows 0 … n_rows - 1 */
  gsize n_rows, dim;
  gpointer values;         /* [rows, dim] of `dtype` */
  gfloat *state;           /* [rows, tps_optimizer_state_per_row()]; NULL if that is 0 */
  const gfloat *gradients; /* [n_rows, dim] */
  /* [1] in memory that the device can read: only the first *n_used rows, at most n_rows, are
   * updated. NULL: all rows are updated. */
  const gint64 *n_used;
  TpsDType dtype;          /* FLOAT32, FLOAT16 or BFLOAT16 */
  TpsRowRounding rounding; /* not used for FLOAT32 */
} TpsRowUpdate;

#define TPS_EXPORT_HANDLE_BYTES 64
#define TPS_DEVICE_UUID_BYTES 16

typedef struct
{
  const gchar *name; /* "cpu" */

  /* -- memory -- */

  /* Allocates a buffer in the device's memory with undefined contents, aligned to 64 bytes at
   * least. Owned by the caller. May block. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST (NULL). */
  TpsBuffer *(*alloc) (TpsDevice *device, gsize n_bytes, GError **error);
  /* As alloc, but in host memory, which `copy` of this device transfers without staging and which
   * all operations of this device can access in place, over the bus. */
  TpsBuffer *(*alloc_host) (TpsDevice *device, gsize n_bytes, GError **error);

  /* -- memory shared with other processes of this machine; all NULL on devices without it -- */

  /* As alloc, but other processes can open the memory by `handle` [TPS_EXPORT_HANDLE_BYTES], an
   * output, and read and write all of it. They must release it before the last reference to this
   * buffer is dropped. Errors: as alloc, and UNAVAILABLE (this machine cannot share memory). */
  TpsBuffer *(*alloc_exported) (TpsDevice *device, gsize n_bytes, guint8 *handle, GError **error);
  /* Opens memory that another process has exported, as a buffer of `device` (or of a peer of it),
   * owned by the caller. `n_bytes` must be the exported size, which is not verified. The memory
   * must not be used after the exporting process has exited. May block. Errors: UNAVAILABLE. */
  TpsBuffer *(*open_exported) (TpsDevice *device, const guint8 *handle, gsize n_bytes,
                               GError **error);
  /* Writes the identifier of this device, which is unique across devices and the same in every
   * process, to `uuid` [TPS_DEVICE_UUID_BYTES]. Does not block. */
  void (*get_uuid) (TpsDevice *device, guint8 *uuid);

  /* -- streams and events -- */

  /* Creates a queue of operations that run one after another. Owned by the caller. May block.
   * Errors: DEVICE_LOST (NULL). */
  TpsStream *(*stream_new) (TpsDevice *device, GError **error);
  /* Waits for the queued operations, ignores their errors, and frees the stream. Blocks. */
  void (*stream_free) (TpsStream *stream);
  /* Blocks until all queued operations are done. Errors: DEVICE_LOST if an operation has failed;
   * every later call then fails, too. */
  gboolean (*stream_sync) (TpsStream *stream, GError **error);
  /* Returns FALSE if an operation is already known to have failed, for instance for lack of memory.
   * Does not block. Errors: as stream_sync. */
  gboolean (*stream_check) (TpsStream *stream, GError **error);

  /* Creates and frees an event, which marks a point in a stream. An event that has never been
   * recorded counts as reached. Owned by the caller. */
  TpsEvent *(*event_new) (TpsDevice *device, GError **error);
  void (*event_free) (TpsEvent *event);
  /* Records the event at the end of the queue: it is reached when all operations queued earlier are
   * done. An event may be recorded again. */
  void (*event_record) (TpsEvent *event, TpsStream *stream);
  /* Makes later operations of `stream` wait for the event. Does not block. */
  void (*stream_wait_event) (TpsStream *stream, TpsEvent *event);
  /* Returns TRUE if the event has been reached. Does not block. */
  gboolean (*event_query) (TpsEvent *event);
  /* Blocks until the event is reached. Errors: DEVICE_LOST. */
  gboolean (*event_sync) (TpsEvent *event, GError **error);
  /* Returns the milliseconds from `start` to `end`, by the device's clock. Both events must be of
   * one device and reached. Errors: INVALID_ARGUMENT otherwise; DEVICE_LOST. */
  gboolean (*events_elapsed) (TpsEvent *start, TpsEvent *end, gdouble *ms, GError **error);

  /* -- operations, which only enqueue -- */

  /* Copies bytes between host memory and this device's memory, in any direction, without overlap.
   * Host memory should be page-locked; otherwise the call may block. */
  void (*copy) (TpsStream *stream, gpointer to, gconstpointer from, gsize n_bytes);
  /* Copies `n_rows` rows of `row_bytes` bytes: row i from `from` + i * from_stride to `to` + i *
   * to_stride. Strides must be at least row_bytes and at most G_MAXINT32. The bytes between rows of
   * `to` do not change. The ranges from first to last row must not overlap. */
  void (*copy_rows) (TpsStream *stream, gpointer to, gsize to_stride, gconstpointer from,
                     gsize from_stride, gsize row_bytes, gsize n_rows);
  /* Sets all bytes to 0. */
  void (*zero) (TpsStream *stream, gpointer values, gsize n_bytes);
  /* values[i] = value, converted to `dtype` (any type). */
  void (*fill) (TpsStream *stream, TpsDType dtype, gpointer values, gdouble value, gsize n_elems);
  /* to[i] = from[i], for all pairs of dtypes. Rounds once, to nearest even. To integers, truncates
   * towards zero and saturates; NaN gives 0. In place only for equal dtypes. */
  void (*cast) (TpsStream *stream, TpsDType to_dtype, gpointer to, TpsDType from_dtype,
                gconstpointer from, gsize n_elems);

  /* Gradients are summed in FLOAT64 for FLOAT64, and in FLOAT32 for FLOAT32, FLOAT16 and BFLOAT16.
   * `dtype` is the dtype of the gradients. */

  /* sum[i] += gradient[i]. */
  void (*accumulate) (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                      gsize n_elems);
  /* sum[i] = weight * gradient[i], rounded to the sum's type. This operation starts a sum. A weight
   * of 1 copies, so that -0 stays -0. */
  void (*scale) (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                 gdouble weight, gsize n_elems);
  /* sum[i] += weight * gradient[i]. The product is rounded first, and then the sum. */
  void (*scale_accumulate) (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                            gdouble weight, gsize n_elems);
  /* average[i] = sum[i] / divisor, rounded once, to `dtype`. May be in place if the types are
   * equal. */
  void (*divide) (TpsStream *stream, TpsDType dtype, gpointer average, gconstpointer sum,
                  gdouble divisor, gsize n_elems);

  /* output [n_bags, dim] = the sum or mean (sum / count) of the rows of `table` in each bag, in the
   * given order. The table is FLOAT32, FLOAT16 or BFLOAT16 and converted to FLOAT32 first. */
  void (*embedding_pool) (TpsStream *stream, const TpsBags *bags, TpsDType dtype,
                          gconstpointer table, gfloat *output);
  /* table_gradient [rows, dim] = 0 plus the contributions of the output's gradient [n_bags, dim] to
   * each row, in the order of the indices, as a tree. Written completely. */
  void (*embedding_backward) (TpsStream *stream, const TpsBags *bags, const gfloat *output_gradient,
                              gfloat *table_gradient);
  /* As embedding_backward, but returns rows: ascending unique ids [capacity], each with the sum of
   * its contributions without the leading 0; capacity must be at least min (rows, n_indices). The
   * first *n_unique are written. *n_unique must lie in memory that the device can write; see
   * tps_device_read_count(). It can be passed to update_rows (`n_used`), so that a step of a table
   * need not wait for the number. */
  void (*embedding_backward_rows) (TpsStream *stream, const TpsBags *bags,
                                   const gfloat *output_gradient, gint64 *unique_indices,
                                   gfloat *row_gradients, gint64 *n_unique);

  /* Updates rows by step number `step` (from 1) of an optimizer. The formulas are in
   * runtime/device/cpu/optimizer/. `spec` must be resolved. Other rows do not change. */
  void (*update_rows) (TpsStream *stream, const TpsOptimizerSpec *spec, gint64 step,
                       const TpsRowUpdate *update);
} TpsDeviceOps;

/* Implementations embed this struct as their first member. A device lives as long as the
 * process. */
struct TpsDevice
{
  const TpsDeviceOps *ops;
  const gchar *name; /* "cpu"; "cuda:1" */
  gboolean is_host;  /* device memory is host memory: the host and the device may both access it */
  const TpsDenseOps *dense; /* runtime/device/dense.h; NULL = those of the CPU */
};

/* Implementations embed these structs as their first members. */
struct TpsStream
{
  TpsDevice *device;
};

struct TpsEvent
{
  TpsDevice *device;
};

/* Waits for the work of `stream`, and returns a number that this work has written to device memory,
 * such as *n_unique of embedding_backward_rows. Returns 0 if the stream has failed. Blocks. */
static inline gsize
tps_device_read_count (TpsStream *stream, const gint64 *count)
{
  gint64 value = 0;

  stream->device->ops->copy (stream, &value, count, sizeof value);
  return stream->device->ops->stream_sync (stream, NULL) ? (gsize) value : 0;
}

/* Returns the CPU, which lives as long as the process. Thread: any. */
TpsDevice *tps_cpu_device_get (void);

/* Finds a device by name; borrowed, it lives as long as the process. The first call with any name
 * but "cpu" loads drivers (device_library.h). Errors: NOT_FOUND; the message lists the known names
 * and, for "cuda…", the devices or the reason why there are none. Thread: any. */
TpsDevice *tps_device_find (const gchar *name, GError **error);

/* Returns all devices, the CPU first, as a NULL-terminated array owned by the caller (g_free). The
 * first call of this function or the next loads drivers. Thread: any. */
TpsDevice **tps_device_list (void);

/* Returns a line for the log: the other devices, or why there are none. Static. Thread: any. */
const gchar *tps_device_list_summary (void);

G_END_DECLS
