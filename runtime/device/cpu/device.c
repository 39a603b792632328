/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The CPU as a device. Operations are complete when the slot returns, so streams and events never
 * wait, and an accepted operation cannot fail. */

#include "runtime/device/backend.h"

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"
#include "runtime/device/cpu/optimizer/optimizer.h"
#include "runtime/device/cpu/kernels/rows.h"
#include "runtime/device/cpu/kernels/stochastic_round.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- memory, streams, events -- */

static TpsBuffer *
cpu_alloc (TpsDevice *device, gsize n_bytes, GError **error)
{
  TpsBuffer *buffer = tps_buffer_pool_get (tps_buffer_pool_get_default (), n_bytes, error);

  if (buffer == NULL)
    g_prefix_error (error, "cpu: no memory for a buffer of %" G_GSIZE_FORMAT " bytes: ", n_bytes);
  return buffer;
}

static TpsStream *
cpu_stream_new (TpsDevice *device, GError **error)
{
  TpsStream *stream = g_new0 (TpsStream, 1);

  stream->device = device;
  return stream;
}

static void
cpu_stream_free (TpsStream *stream)
{
  g_free (stream);
}

static gboolean
cpu_stream_sync (TpsStream *stream, GError **error)
{
  return TRUE;
}

typedef struct
{
  TpsEvent parent;
  gint64 recorded_ns; /* 0: not recorded yet */
} CpuEvent;

static TpsEvent *
cpu_event_new (TpsDevice *device, GError **error)
{
  CpuEvent *event = g_new0 (CpuEvent, 1);

  event->parent.device = device;
  return &event->parent;
}

static void
cpu_event_free (TpsEvent *event)
{
  g_free (event);
}

static void
cpu_event_record (TpsEvent *event, TpsStream *stream)
{
  ((CpuEvent *) event)->recorded_ns = tps_clock_now_ns ();
}

static void
cpu_stream_wait_event (TpsStream *stream, TpsEvent *event)
{
}

static gboolean
cpu_event_query (TpsEvent *event)
{
  return TRUE;
}

static gboolean
cpu_event_sync (TpsEvent *event, GError **error)
{
  return TRUE;
}

static gboolean
cpu_events_elapsed (TpsEvent *start, TpsEvent *end, gdouble *ms, GError **error)
{
  gint64 start_ns = ((const CpuEvent *) start)->recorded_ns;
  gint64 end_ns = ((const CpuEvent *) end)->recorded_ns;

  if (start_ns == 0 || end_ns == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "cpu: %s event was not recorded",
                     start_ns == 0 ? "start" : "end");
  *ms = (gdouble) (end_ns - start_ns) / 1e6;
  return TRUE;
}

/* -- operations: the kernels of this folder, called without the stream -- */

static void
cpu_copy (TpsStream *stream, gpointer to, gconstpointer from, gsize n_bytes)
{
  if (n_bytes > 0)
    memcpy (to, from, n_bytes);
}

static void
cpu_copy_rows (TpsStream *stream, gpointer to, gsize to_stride, gconstpointer from,
               gsize from_stride, gsize row_bytes, gsize n_rows)
{
  for (gsize i = 0; i < n_rows && row_bytes > 0; i++)
    memcpy ((guint8 *) to + i * to_stride, (const guint8 *) from + i * from_stride, row_bytes);
}

static void
cpu_zero (TpsStream *stream, gpointer values, gsize n_bytes)
{
  if (n_bytes > 0)
    memset (values, 0, n_bytes);
}

static void
cpu_fill (TpsStream *stream, TpsDType dtype, gpointer values, gdouble value, gsize n_elems)
{
  tps_cpu_fill (dtype, values, value, n_elems);
}

static void
cpu_cast (TpsStream *stream, TpsDType to_dtype, gpointer to, TpsDType from_dtype,
          gconstpointer from, gsize n_elems)
{
  tps_cpu_cast (to_dtype, to, from_dtype, from, n_elems);
}

static void
cpu_accumulate (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                gsize n_elems)
{
  tps_cpu_accumulate (dtype, sum, gradient, n_elems);
}

static void
cpu_scale (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient, gdouble weight,
           gsize n_elems)
{
  tps_cpu_scale (dtype, sum, gradient, weight, n_elems);
}

static void
cpu_scale_accumulate (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                      gdouble weight, gsize n_elems)
{
  tps_cpu_scale_accumulate (dtype, sum, gradient, weight, n_elems);
}

static void
cpu_divide (TpsStream *stream, TpsDType dtype, gpointer average, gconstpointer sum, gdouble divisor,
            gsize n_elems)
{
  tps_cpu_divide (dtype, average, sum, divisor, n_elems);
}

static void
cpu_embedding_pool (TpsStream *stream, const TpsBags *bags, TpsDType dtype, gconstpointer table,
                    gfloat *output)
{
  if (dtype == TPS_DTYPE_FLOAT32)
    tps_cpu_embedding_pool (bags, table, output);
  else
    tps_cpu_embedding_pool_half (bags, dtype, table, output);
}

static void
cpu_embedding_backward (TpsStream *stream, const TpsBags *bags, const gfloat *output_gradient,
                        gfloat *table_gradient)
{
  tps_cpu_embedding_backward (bags, output_gradient, table_gradient);
}

static void
cpu_embedding_backward_rows (TpsStream *stream, const TpsBags *bags, const gfloat *output_gradient,
                             gint64 *unique_indices, gfloat *row_gradients, gint64 *n_unique)
{
  *n_unique = (gint64) tps_cpu_embedding_backward_rows (bags, output_gradient, unique_indices,
                                                        row_gradients);
}

/* Updates one row of FLOAT16 or BFLOAT16. `values` [dim] is working space. */
static void
update_half_row (const TpsOptimizerStep *factors, const TpsRowUpdate *update, gsize row,
                 const gfloat *gradient, gfloat *state, gfloat *values)
{
  guint8 *place = (guint8 *) update->values + row * update->dim * tps_dtype_size (update->dtype);

  tps_cpu_cast (TPS_DTYPE_FLOAT32, values, update->dtype, place, update->dim);
  tps_cpu_optimizer_get (factors->spec->kind) (factors, values, gradient, state, update->dim);
  tps_cpu_round_row (update->dtype, place, values, update->dim, &update->rounding, factors->step,
                     row);
}

static void
cpu_update_rows (TpsStream *stream, const TpsOptimizerSpec *spec, gint64 step,
                 const TpsRowUpdate *update)
{
  TpsUpdateRow *update_row = tps_cpu_optimizer_get (spec->kind);
  gsize n_states = tps_optimizer_state_per_row (spec, update->dim);
  gsize n_rows = update->n_used != NULL ? (gsize) *update->n_used : update->n_rows;
  g_autoptr (TpsBuffer)
      wide = NULL; /* one row, converted to FLOAT32; NULL if the table is FLOAT32 */
  TpsOptimizerStep factors;

  if (update->dtype != TPS_DTYPE_FLOAT32)
    wide = tps_buffer_new (MAX (update->dim, 1) * sizeof (gfloat));
  tps_cpu_optimizer_step_init (&factors, spec, step);
  for (gsize i = 0; i < n_rows; i++)
    {
      gsize row = update->indices != NULL ? (gsize) update->indices[i] : i;
      const gfloat *gradient = update->gradients + i * update->dim;
      gfloat *state = n_states > 0 ? update->state + row * n_states : NULL;

      if (wide == NULL)
        update_row (&factors, (gfloat *) update->values + row * update->dim, gradient, state,
                    update->dim);
      else
        update_half_row (&factors, update, row, gradient, state,
                         (gfloat *) (gpointer) tps_buffer_get_data (wide));
    }
}

static const TpsDeviceOps cpu_ops = {
  .name = "cpu",
  .alloc = cpu_alloc,
  .alloc_host = cpu_alloc,
  .stream_new = cpu_stream_new,
  .stream_free = cpu_stream_free,
  .stream_sync = cpu_stream_sync,
  .stream_check = cpu_stream_sync,
  .event_new = cpu_event_new,
  .event_free = cpu_event_free,
  .event_record = cpu_event_record,
  .stream_wait_event = cpu_stream_wait_event,
  .event_query = cpu_event_query,
  .event_sync = cpu_event_sync,
  .events_elapsed = cpu_events_elapsed,
  .copy = cpu_copy,
  .copy_rows = cpu_copy_rows,
  .zero = cpu_zero,
  .fill = cpu_fill,
  .cast = cpu_cast,
  .accumulate = cpu_accumulate,
  .scale = cpu_scale,
  .scale_accumulate = cpu_scale_accumulate,
  .divide = cpu_divide,
  .embedding_pool = cpu_embedding_pool,
  .embedding_backward = cpu_embedding_backward,
  .embedding_backward_rows = cpu_embedding_backward_rows,
  .update_rows = cpu_update_rows,
};

TpsDevice *
tps_cpu_device_get (void)
{
  static TpsDevice device = { .ops = &cpu_ops, .name = "cpu", .is_host = TRUE };

  return &device;
}
