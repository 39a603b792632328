/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/device/device_rows.h"

#include <string.h>

#include "runtime/base/parallel.h"

/* The bytes of rows that are filled and copied at a time, and the bytes that one thread fills at a
 * time. While a block is filled, the previous block is copied. */
#define BLOCK_BYTES ((gsize) 4 << 20)
#define SHARE_BYTES ((gsize) 256 << 10)

static const TpsDeviceOps *
ops_of (const TpsDeviceRows *rows)
{
  return rows->lanes->device->ops;
}

static gfloat *
floats_of (const TpsBuffer *buffer)
{
  return buffer != NULL ? (gfloat *) (gpointer) tps_buffer_get_data (buffer) : NULL;
}

/* -- initial rows -- */

/* Rows [first, first + n), which threads fill in shares. */
typedef struct
{
  const TpsTableSpec *spec;
  gsize first, n, row_bytes, rows_per_share;
  guint8 *to;
} Filling;

static void
fill_share (gpointer user_data, gsize share)
{
  const Filling *filling = user_data;
  const TpsTableSpec *spec = filling->spec;
  gsize begin = share * filling->rows_per_share;
  gsize end = MIN (begin + filling->rows_per_share, filling->n);

  for (gsize i = begin; i < end; i++)
    tps_initializer_fill_row (&spec->initializer,
                              tps_shard_get_row (&spec->shard, (gint64) (filling->first + i)),
                              spec->dtype, filling->to + i * filling->row_bytes, (gsize) spec->dim);
}

void
tps_table_fill_initial_rows (const TpsTableSpec *spec, gsize first, gsize n, guint8 *to,
                             TpsWorkerPool *workers)
{
  Filling filling = { .spec = spec, .first = first, .n = n, .to = to };

  filling.row_bytes = (gsize) spec->dim * tps_dtype_size (spec->dtype);
  filling.rows_per_share = MAX (1, SHARE_BYTES / filling.row_bytes);
  tps_parallel_run (workers, (n + filling.rows_per_share - 1) / filling.rows_per_share, fill_share,
                    &filling);
}

static void
fill_in_place (TpsDeviceRows *rows, const TpsTableSpec *spec, TpsWorkerPool *workers)
{
  guint8 *to = tps_buffer_get_data (rows->rows);

  if (rows->state != NULL)
    memset (tps_buffer_get_data (rows->state), 0, tps_buffer_get_size (rows->state));
  if (spec->initializer.kind == TPS_INITIALIZER_ZEROS)
    memset (to, 0, tps_buffer_get_size (rows->rows));
  else
    tps_table_fill_initial_rows (spec, 0, (gsize) rows->n_rows, to, workers);
}

/* Uses two blocks of staged memory: one is filled while the other is copied. */
static gboolean
fill_by_blocks (TpsDeviceRows *rows, const TpsTableSpec *spec, TpsDeviceLane *lane,
                TpsWorkerPool *workers, GError **error)
{
  const TpsDeviceOps *ops = ops_of (rows);
  gsize n_block = MAX (1, BLOCK_BYTES / rows->row_bytes);
  gsize n_rows = (gsize) rows->n_rows;
  guint half = 0;

  if (!tps_device_lane_provide (lane, 2 * n_block * rows->row_bytes, 0, 2, error))
    return FALSE;
  for (gsize first = 0; first < n_rows; first += n_block, half ^= 1)
    {
      TpsEvent *copied = g_ptr_array_index (lane->events, half);
      guint8 *block = tps_buffer_get_data (lane->staged) + half * n_block * rows->row_bytes;
      gsize n = MIN (n_block, n_rows - first);

      /* Waits for the previous copy that used this half. */
      if (first >= 2 * n_block && !ops->event_sync (copied, error))
        return FALSE;
      tps_table_fill_initial_rows (spec, first, n, block, workers);
      ops->copy (lane->stream, tps_buffer_get_data (rows->rows) + first * rows->row_bytes, block,
                 n * rows->row_bytes);
      ops->event_record (copied, lane->stream);
    }
  return TRUE;
}

static gboolean
fill_on_device (TpsDeviceRows *rows, const TpsTableSpec *spec, TpsWorkerPool *workers,
                GError **error)
{
  const TpsDeviceOps *ops = ops_of (rows);
  g_autoptr (TpsDeviceLane) lane = tps_device_lane_new (rows->lanes, error);

  if (lane == NULL)
    return FALSE;
  if (rows->state != NULL)
    ops->zero (lane->stream, floats_of (rows->state), tps_buffer_get_size (rows->state));
  if (spec->initializer.kind == TPS_INITIALIZER_ZEROS)
    ops->zero (lane->stream, tps_buffer_get_data (rows->rows), tps_buffer_get_size (rows->rows));
  else if (!fill_by_blocks (rows, spec, lane, workers, error))
    return FALSE;
  return ops->stream_sync (lane->stream, error);
}

/* -- making -- */

static TpsBuffer *
allocate_bytes (const TpsDeviceRows *rows, gboolean is_host_memory, gsize n_bytes, GError **error)
{
  TpsDevice *device = rows->lanes->device;

  return is_host_memory ? device->ops->alloc_host (device, n_bytes, error)
                        : tps_idle_memory_alloc (&rows->lanes->idle_memory, n_bytes, error);
}

static gboolean
allocate (TpsDeviceRows *rows, const TpsTableSpec *spec, GError **error)
{
  TpsDevice *device = rows->lanes->device;
  gboolean is_host_memory = spec->place.is_host_memory;
  gsize n_rows = (gsize) rows->n_rows;
  gsize n_state = n_rows * tps_optimizer_state_per_row (&rows->optimizer, rows->dim)
                  * sizeof (gfloat);

  rows->stream = device->ops->stream_new (device, error);
  if (rows->stream == NULL)
    return FALSE;
  rows->rows = allocate_bytes (rows, is_host_memory, n_rows * rows->row_bytes, error);
  if (rows->rows != NULL && n_state > 0)
    rows->state = allocate_bytes (rows, is_host_memory, n_state, error);
  return rows->rows != NULL && (n_state == 0 || rows->state != NULL);
}

TpsDeviceRows *
tps_device_rows_new (const TpsTableSpec *spec, TpsDeviceLanes *lanes, TpsWorkerPool *workers,
                     gboolean is_unfilled, GError **error)
{
  TpsDeviceRows *rows = g_new0 (TpsDeviceRows, 1);
  gboolean ok;

  rows->name = g_strdup (spec->name);
  rows->lanes = lanes;
  rows->n_rows = spec->shard.n_rows;
  rows->dim = (gsize) spec->dim;
  rows->dtype = spec->dtype;
  rows->row_bytes = rows->dim * tps_dtype_size (spec->dtype);
  rows->rounding = tps_table_spec_get_rounding (spec);
  rows->optimizer = spec->optimizer;
  tps_mutex_init (&rows->lock);
  ok = allocate (rows, spec, error);
  if (ok && !is_unfilled && spec->place.is_host_memory)
    fill_in_place (rows, spec, workers);
  else if (ok && !is_unfilled)
    ok = fill_on_device (rows, spec, workers, error);
  if (ok)
    return rows;
  g_prefix_error (error, "table %s: ", spec->name);
  tps_device_rows_free (rows);
  return NULL;
}

void
tps_device_rows_free (TpsDeviceRows *rows)
{
  if (rows->stream != NULL)
    ops_of (rows)->stream_free (rows->stream);
  g_clear_pointer (&rows->rows, tps_buffer_unref);
  g_clear_pointer (&rows->state, tps_buffer_unref);
  g_clear_pointer (&rows->filled, g_array_unref);
  tps_mutex_clear (&rows->lock);
  g_free (rows->name);
  g_free (rows);
}

/* -- work on rows -- */

void
tps_device_rows_pool (TpsDeviceRows *rows, const TpsBags *bags, gfloat *output, TpsEvent *before,
                      TpsEvent *after)
{
  const TpsDeviceOps *ops = ops_of (rows);

  TPS_LOCK_SCOPE (&rows->lock);
  ops->stream_wait_event (rows->stream, before);
  ops->embedding_pool (rows->stream, bags, rows->dtype, tps_buffer_get_data (rows->rows), output);
  ops->event_record (after, rows->stream);
}

void
tps_device_rows_step (TpsDeviceRows *rows, const TpsDeviceStepRows *step, gint64 lsn,
                      TpsEvent *before, TpsEvent *after)
{
  const TpsDeviceOps *ops = ops_of (rows);
  TpsRowUpdate update = {
    .indices = step->indices,
    .n_rows = step->capacity,
    .dim = rows->dim,
    .values = tps_buffer_get_data (rows->rows),
    .state = floats_of (rows->state),
    .gradients = step->gradients,
    .n_used = step->n_rows,
    .dtype = rows->dtype,
    .rounding = rows->rounding,
  };

  TPS_LOCK_SCOPE (&rows->lock);
  ops->stream_wait_event (rows->stream, before);
  if (step->capacity > 0)
    ops->update_rows (rows->stream, &rows->optimizer, rows->n_steps + 1, &update);
  rows->last_lsn = lsn;
  ops->event_record (after, rows->stream);
}

void
tps_device_rows_count_step (TpsDeviceRows *rows)
{
  TPS_LOCK_SCOPE (&rows->lock);
  rows->n_steps++;
}

gboolean
tps_device_rows_check (TpsDeviceRows *rows, TpsEvent *event, GError **error)
{
  const TpsDeviceOps *ops = ops_of (rows);

  TPS_LOCK_SCOPE (&rows->lock);
  ops->event_record (event, rows->stream);
  return ops->stream_check (rows->stream, error);
}

/* If no new stream can be made, the failed stream stays, and all later calls fail. */
void
tps_device_rows_recover (TpsDeviceRows *rows)
{
  TpsDevice *device = rows->lanes->device;
  TpsStream *stream;

  TPS_LOCK_SCOPE (&rows->lock);
  if (!device->ops->stream_sync (rows->stream, NULL))
    {
      stream = device->ops->stream_new (device, NULL);
      if (stream != NULL)
        {
          device->ops->stream_free (rows->stream);
          rows->stream = stream;
        }
    }
}

void
tps_device_bags_stage_slots (const TpsDeviceBags *bags, gsize first, gsize n, gint64 *to)
{
  for (gsize i = 0; i < n; i++)
    to[i] = bags->slots[first + i] - bags->base;
}

/* -- copies for snapshots -- */

/* Neighbouring rows that have the same LSN in a snapshot: the rows from the end of the previous
 * span to `end`. */
typedef struct
{
  gsize end;
  gint64 lsn;
} Span;

/* The staged memory of one copy of rows. */
typedef struct
{
  TpsDeviceLane *lane;
  gsize row_bytes, state_bytes; /* for all rows of the piece */
  guint8 *rows, *state;
} Piece;

static gsize
get_state_bytes (const TpsDeviceRows *rows)
{
  return rows->state != NULL
             ? tps_optimizer_state_per_row (&rows->optimizer, rows->dim) * sizeof (gfloat)
             : 0;
}

static guint8 *
place_of (const TpsBuffer *buffer, gsize slot, gsize row_bytes)
{
  return tps_buffer_get_data (buffer) + slot * row_bytes;
}

/* Provides the staged memory for `n` rows. end_piece() must be called even if this function
 * fails. */
static gboolean
provide (Piece *piece, TpsDeviceRows *rows, gsize n, GError **error)
{
  piece->row_bytes = n * rows->row_bytes;
  piece->state_bytes = n * get_state_bytes (rows);
  piece->lane = tps_device_lane_new (rows->lanes, error);
  if (piece->lane == NULL
      || !tps_device_lane_provide (piece->lane, piece->row_bytes + piece->state_bytes, 0, 1, error))
    return FALSE;
  piece->rows = tps_buffer_get_data (piece->lane->staged);
  piece->state = piece->rows + piece->row_bytes;
  return TRUE;
}

static void
enqueue_copy (const TpsDeviceRows *rows, gpointer to, gconstpointer from, gsize n_bytes)
{
  if (n_bytes > 0)
    ops_of (rows)->copy (rows->stream, to, from, n_bytes);
}

/* Waits for the copies of the piece. Its staged memory must not be reused earlier. */
static gboolean
wait_for_copies (TpsDeviceRows *rows, const Piece *piece, GError **error)
{
  const TpsDeviceOps *ops = ops_of (rows);
  TpsEvent *event = g_ptr_array_index (piece->lane->events, 0);

  tps_mutex_lock (&rows->lock);
  ops->event_record (event, rows->stream);
  tps_mutex_unlock (&rows->lock);
  if (ops->event_sync (event, error))
    return TRUE;
  tps_device_rows_recover (rows);
  return FALSE;
}

static gboolean
end_piece (Piece *piece, TpsDeviceRows *rows, gboolean ok, GError **error)
{
  g_clear_pointer (&piece->lane, tps_device_lane_free);
  if (!ok)
    g_prefix_error (error, "table %s: ", rows->name);
  return ok;
}

/* ---- copies of rows -------------------------------------------------------------------------- */

static gboolean
capture (TpsDeviceRows *rows, Piece *piece, gsize slot, gint64 *lsn, GError **error)
{
  tps_mutex_lock (&rows->lock);
  *lsn = rows->last_lsn;
  enqueue_copy (rows, piece->rows, place_of (rows->rows, slot, rows->row_bytes), piece->row_bytes);
  if (rows->state != NULL)
    enqueue_copy (rows, piece->state, place_of (rows->state, slot, get_state_bytes (rows)),
                  piece->state_bytes);
  tps_mutex_unlock (&rows->lock);
  return wait_for_copies (rows, piece, error);
}

gboolean
tps_device_rows_capture (TpsDeviceRows *rows, gsize slot, gsize n, gpointer to, gfloat *state,
                         gint64 *lsn, GError **error)
{
  Piece piece = { NULL };
  gboolean ok = provide (&piece, rows, n, error) && capture (rows, &piece, slot, lsn, error);

  if (ok)
    {
      memcpy (to, piece.rows, piece.row_bytes);
      if (piece.state_bytes > 0)
        memcpy (state, piece.state, piece.state_bytes);
    }
  return end_piece (&piece, rows, ok, error);
}

/* ---- rows of a snapshot ---------------------------------------------------------------------- */

static void
remember_lsns (TpsDeviceRows *rows, gsize slot, gsize n, const gint64 *lsns)
{
  if (rows->filled == NULL)
    rows->filled = g_array_new (FALSE, FALSE, sizeof (Span));
  for (gsize i = 0; i < n; i++)
    {
      Span *last = rows->filled->len > 0
                       ? &g_array_index (rows->filled, Span, rows->filled->len - 1)
                       : NULL;
      Span span = { slot + i + 1, lsns[i] };

      rows->last_lsn = MAX (rows->last_lsn, lsns[i]);
      if (last != NULL && last->lsn == span.lsn)
        last->end = span.end;
      else
        g_array_append_val (rows->filled, span);
    }
  rows->filled_lsn = rows->last_lsn;
}

static gboolean
fill (TpsDeviceRows *rows, Piece *piece, gsize slot, GError **error)
{
  tps_mutex_lock (&rows->lock);
  enqueue_copy (rows, place_of (rows->rows, slot, rows->row_bytes), piece->rows, piece->row_bytes);
  if (rows->state != NULL)
    enqueue_copy (rows, place_of (rows->state, slot, get_state_bytes (rows)), piece->state,
                  piece->state_bytes);
  tps_mutex_unlock (&rows->lock);
  return wait_for_copies (rows, piece, error);
}

gboolean
tps_device_rows_fill (TpsDeviceRows *rows, gsize slot, gsize n, gconstpointer from,
                      const gfloat *state, const gint64 *lsns, GError **error)
{
  Piece piece = { NULL };
  gboolean ok = provide (&piece, rows, n, error);

  if (ok)
    {
      memcpy (piece.rows, from, piece.row_bytes);
      if (piece.state_bytes > 0)
        memcpy (piece.state, state, piece.state_bytes);
      ok = fill (rows, &piece, slot, error);
    }
  if (ok)
    remember_lsns (rows, slot, n, lsns);
  return end_piece (&piece, rows, ok, error);
}

/* ---- steps in restored rows ------------------------------------------------------------------ */

gboolean
tps_device_rows_may_have (TpsDeviceRows *rows, gint64 lsn)
{
  if (lsn > rows->filled_lsn)
    g_clear_pointer (&rows->filled, g_array_unref);
  return rows->filled != NULL;
}

/* Finds the span of the slot by binary search. */
gboolean
tps_device_rows_has (const TpsDeviceRows *rows, gint64 slot, gint64 lsn)
{
  guint first = 0, after = rows->filled->len;

  while (after - first > 1)
    {
      guint middle = (first + after - 1) / 2;

      if ((gsize) slot < g_array_index (rows->filled, Span, middle).end)
        after = middle + 1;
      else
        first = middle + 1;
    }
  return g_array_index (rows->filled, Span, first).lsn >= lsn;
}
