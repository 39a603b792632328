/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/device/device_image.h"

#include <string.h>

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

static const TpsDeviceOps *
ops_of (const TpsDeviceRows *rows)
{
  return rows->lanes->device->ops;
}

/* Returns the bytes of a row's state. */
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
  if (tps_device_rows_wait (rows, g_ptr_array_index (piece->lane->events, 0), error))
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
