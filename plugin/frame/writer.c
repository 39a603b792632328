/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All output goes into one growing array, the head. A large binary leaves a splice: an offset of
 * the head and the bytes to send there. The head may move as it grows, so the pieces are computed
 * at the end. */

#include "plugin/frame/writer.h"

#include <unistd.h>

#include "plugin/frame/writer_private.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"

#define FIRST_HEAD_BYTES 256
#define MAX_KEPT_HEAD_BYTES 16384
#define MAX_KEPT_SPLICES 64
#define FRAME_LENGTH_BYTES 4
#define WRITER_BYTES 768 /* size of a writer with its arrays */

typedef struct
{
  gsize head_offset;
  const guint8 *data;
  gsize n_bytes;
  TpsBuffer *buffer; /* a reference that keeps `data`; NULL = `data` is borrowed */
} Splice;

static void
release_splice (gpointer data)
{
  Splice *splice = data;

  g_clear_pointer (&splice->buffer, tps_buffer_unref);
}

/* Releases buffers and borrowed memory. */
static void
release_contents (TpsWriter *out)
{
  GDestroyNotify released = g_steal_pointer (&out->released);

  tps_writer_queued (out);
  tps_charge_clear (&out->charge);
  g_clear_pointer (&out->charge.budget, tps_budget_unref);
  g_clear_error (&out->failure);
  if (out->splices->len > 0)
    g_array_set_size (out->splices, 0);
  if (out->pieces->len > 0)
    g_array_set_size (out->pieces, 0);
  tps_writer_set_sharing (out, NULL);
  if (out->descriptor >= 0)
    close (out->descriptor);
  out->descriptor = -1;
  /* Must come last, because the owner may then free the borrowed memory. */
  if (released != NULL)
    released (out->released_data);
}

static void
release (gpointer data)
{
  TpsWriter *out = data;

  g_array_unref (out->splices);
  g_array_unref (out->pieces);
  g_free (out->head);
  g_free (out);
}

/* Writers are created and freed with every call, so they are kept for reuse with their arrays,
 * unless these are large. */
static TpsDepot depot = TPS_DEPOT_INIT (release);
static _Thread_local TpsMagazine magazine;

static TpsWriter *
allocate (void)
{
  TpsWriter *out = g_new0 (TpsWriter, 1);

  out->link.data = out;
  out->n_allocated = FIRST_HEAD_BYTES;
  out->head = g_malloc (out->n_allocated);
  out->descriptor = -1;
  out->splices = g_array_new (FALSE, FALSE, sizeof (Splice));
  g_array_set_clear_func (out->splices, release_splice);
  out->pieces = g_array_new (FALSE, FALSE, sizeof (struct iovec));
  return out;
}

TpsWriter *
tps_writer_new (TpsProtocolKind protocol, gboolean framed)
{
  TpsWriter *out = tps_magazine_take (&magazine, &depot);

  if (out == NULL)
    out = allocate ();
  tps_writer_reset (out, protocol, framed);
  return out;
}

void
tps_writer_free (TpsWriter *out)
{
  gboolean is_large;

  if (out == NULL)
    return;
  is_large = out->n_allocated > MAX_KEPT_HEAD_BYTES || out->splices->len > MAX_KEPT_SPLICES;
  release_contents (out);
  if (is_large)
    release (out);
  else
    tps_magazine_put (&magazine, &depot, out);
}

void
tps_writer_reset (TpsWriter *out, TpsProtocolKind protocol, gboolean framed)
{
  release_contents (out);
  if (out->n_allocated > MAX_KEPT_HEAD_BYTES)
    {
      g_free (out->head);
      out->n_allocated = FIRST_HEAD_BYTES;
      out->head = g_malloc (out->n_allocated);
    }
  out->compact = protocol == TPS_PROTOCOL_COMPACT;
  out->framed = framed;
  out->too_long = FALSE;
  out->impossible = FALSE;
  out->n_prefix = 0;
  out->n_skipped = 0;
  out->n_head = 0;
  out->n_spliced_bytes = 0;
  out->n_copies = 0;
  out->bool_pending = FALSE;
  out->depth = 0;
}

/* Charges for a head of `n_allocated` bytes and for the copies. */
static gboolean
charge_all (TpsWriter *out, gsize n_allocated, GError **error)
{
  return tps_charge_set (&out->charge, WRITER_BYTES + n_allocated + out->n_copies, error);
}

void
tps_writer_set_budget (TpsWriter *out, TpsBudget *budget)
{
  out->charge = (TpsCharge) { tps_budget_ref (budget), 0 };
  charge_all (out, out->n_allocated, NULL);
}

static gboolean
grow_to (TpsWriter *out, gsize n_allocated, GError **error)
{
  guint8 *head;

  if (!charge_all (out, n_allocated, error))
    return FALSE;
  head = g_try_realloc (out->head, n_allocated);
  if (head == NULL)
    {
      charge_all (out, out->n_allocated, NULL);
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "no memory for a message of %" G_GSIZE_FORMAT " bytes", n_allocated);
      return FALSE;
    }
  out->n_allocated = n_allocated;
  out->head = head;
  return TRUE;
}

gboolean
tps_writer_grow (TpsWriter *out, gsize n_bytes)
{
  gsize n_allocated = out->n_allocated;
  GError *error = NULL;

  while (n_bytes > n_allocated - out->n_head)
    n_allocated *= 2;
  if (out->failure == NULL && grow_to (out, n_allocated, &error))
    return TRUE;
  if (error != NULL)
    tps_writer_fail (out, error);
  out->n_head = 0;
  return n_bytes <= out->n_allocated;
}

GList *
tps_writer_get_link (TpsWriter *out)
{
  return &out->link;
}

void
tps_writer_set_released (TpsWriter *out, GDestroyNotify func, gpointer user_data)
{
  out->released = func;
  out->released_data = user_data;
}

void
tps_writer_set_sharing (TpsWriter *out, TpsSharing *sharing)
{
  TpsSharing *before = out->sharing;

  out->sharing = sharing != NULL ? tps_sharing_ref (sharing) : NULL;
  if (before != NULL)
    tps_sharing_unref (before);
}

gboolean
tps_writer_share (TpsWriter *out, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice)
{
  return out->sharing != NULL && n_bytes >= TPS_SHARING_MIN_BYTES
         && out->sharing->ops->place (out->sharing, data, n_bytes, slice);
}

gboolean
tps_writer_share_buffer (TpsWriter *out, TpsBuffer *buffer, gsize offset, gsize n_bytes,
                         TpsSharedSlice *slice)
{
  if (out->sharing == NULL || n_bytes < TPS_SHARING_MIN_BYTES
      || out->sharing->ops->place_buffer == NULL)
    return tps_writer_share (out, tps_buffer_get_data (buffer) + offset, n_bytes, slice);
  return out->sharing->ops->place_buffer (out->sharing, buffer, offset, n_bytes, slice);
}

gboolean
tps_writer_share_device (TpsWriter *out, TpsDevice *device, gconstpointer data, gsize n_bytes,
                         TpsSharedSlice *slice)
{
  return out->sharing != NULL && out->sharing->ops->place_device != NULL
         && n_bytes >= TPS_SHARING_MIN_BYTES
         && out->sharing->ops->place_device (out->sharing, device, data, n_bytes, slice);
}

void
tps_writer_fail (TpsWriter *out, GError *error)
{
  if (out->failure == NULL)
    out->failure = error;
  else
    g_error_free (error);
}

/* Returns TRUE if the message has not failed. Errors: the error of tps_writer_fail(). */
static gboolean
check_failure (const TpsWriter *out, GError **error)
{
  if (out->failure == NULL)
    return TRUE;
  g_propagate_error (error, g_error_copy (out->failure));
  return FALSE;
}

void
tps_writer_set_queued (TpsWriter *out, GDestroyNotify func, gpointer user_data)
{
  out->queued = func;
  out->queued_data = user_data;
}

void
tps_writer_queued (TpsWriter *out)
{
  GDestroyNotify queued = g_steal_pointer (&out->queued);

  if (queued != NULL)
    queued (out->queued_data);
}

void
tps_writer_take_descriptor (TpsWriter *out, gint fd)
{
  out->descriptor = fd;
}

gint
tps_writer_get_descriptor (const TpsWriter *out)
{
  return out->descriptor;
}

static void
add_piece (TpsWriter *out, const guint8 *bytes, gsize n_bytes)
{
  struct iovec piece = { .iov_base = (gpointer) (guintptr) bytes, .iov_len = n_bytes };

  if (n_bytes > 0)
    g_array_append_val (out->pieces, piece);
}

static void
compute_pieces (TpsWriter *out)
{
  gsize n_done = out->n_skipped;

  g_array_set_size (out->pieces, 0);
  for (guint i = 0; i < out->splices->len; i++)
    {
      const Splice *splice = &g_array_index (out->splices, Splice, i);

      add_piece (out, out->head + n_done, splice->head_offset - n_done);
      add_piece (out, splice->data, splice->n_bytes);
      n_done = splice->head_offset;
    }
  add_piece (out, out->head + n_done, out->n_head - n_done);
}

gboolean
tps_writer_message_end (TpsWriter *out, GError **error)
{
  gsize n_bytes = out->n_head + out->n_spliced_bytes;
  guint32 frame_length;

  if (!check_failure (out, error))
    return FALSE;
  if (out->framed)
    n_bytes -= FRAME_LENGTH_BYTES;
  if (out->too_long || n_bytes > G_MAXINT32)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "a message has %" G_GSIZE_FORMAT " bytes; at most %d can be sent", n_bytes,
                   G_MAXINT32);
      return FALSE;
    }
  frame_length = GUINT32_TO_BE ((guint32) n_bytes);
  if (out->framed)
    memcpy (out->head, &frame_length, sizeof frame_length);
  compute_pieces (out);
  return TRUE;
}

gboolean
tps_writer_message_end_transferred (TpsWriter *out, GError **error)
{
  if (!check_failure (out, error))
    return FALSE;
  if (out->impossible)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "a tensor or a list of the message is longer than %d, the limit of the %s "
                   "protocol",
                   G_MAXINT32, out->compact ? "compact" : "binary");
      return FALSE;
    }
  out->n_skipped = out->n_prefix;
  compute_pieces (out);
  return TRUE;
}

const struct iovec *
tps_writer_get_pieces (TpsWriter *out, guint *n_pieces, gsize *n_bytes)
{
  *n_pieces = out->pieces->len;
  if (n_bytes != NULL)
    *n_bytes = out->n_head - out->n_skipped + out->n_spliced_bytes;
  return (const struct iovec *) (gpointer) out->pieces->data;
}

/* Takes ownership of the reference of `buffer`. */
static void
splice_bytes (TpsWriter *out, const guint8 *data, gsize n_bytes, TpsBuffer *buffer)
{
  Splice piece = { .head_offset = out->n_head, .data = data, .n_bytes = n_bytes, .buffer = buffer };

  out->n_spliced_bytes += n_bytes;
  g_array_append_val (out->splices, piece);
}

static void
splice (TpsWriter *out, const guint8 *data, gsize n_bytes, TpsBuffer *buffer)
{
  tps_writer_put_binary_length (out, n_bytes);
  splice_bytes (out, data, n_bytes, buffer);
}

/* Copies shared memory, because the peer may change it while the writer is queued. If there is no
 * memory for the copy, the message fails. */
static void
splice_copy (TpsWriter *out, gconstpointer data, gsize n_bytes)
{
  gsize cost = tps_buffer_pool_get_cost (n_bytes);
  GError *error = NULL;
  TpsBuffer *copy = NULL;

  out->n_copies += cost;
  if (charge_all (out, out->n_allocated, &error))
    copy = tps_buffer_pool_get (tps_buffer_pool_get_default (), n_bytes, &error);
  if (copy == NULL)
    {
      out->n_copies -= cost;
      charge_all (out, out->n_allocated, NULL);
      tps_writer_fail (out, error);
      return;
    }
  memcpy (tps_buffer_get_data (copy), data, n_bytes);
  splice (out, tps_buffer_get_data (copy), n_bytes, copy);
}

void
tps_writer_binary_buffer (TpsWriter *out, TpsBuffer *buffer, gsize offset, gsize n_bytes)
{
  const guint8 *data = tps_buffer_get_data (buffer) + offset;

  if (n_bytes < TPS_MESSAGE_BODY_THRESHOLD)
    tps_writer_binary (out, data, n_bytes);
  else if (tps_buffer_is_shared (buffer))
    splice_copy (out, data, n_bytes);
  else
    splice (out, data, n_bytes, tps_buffer_ref (buffer));
}

void
tps_writer_binary_borrowed (TpsWriter *out, gconstpointer data, gsize n_bytes)
{
  if (n_bytes < TPS_MESSAGE_BODY_THRESHOLD)
    tps_writer_binary (out, data, n_bytes);
  else
    splice (out, data, n_bytes, NULL);
}

void
tps_writer_binary_pieces (TpsWriter *out, const struct iovec *pieces, guint n_pieces)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_pieces; i++)
    n_bytes += pieces[i].iov_len;
  tps_writer_put_binary_length (out, n_bytes);
  for (guint i = 0; i < n_pieces; i++)
    if (pieces[i].iov_len < TPS_MESSAGE_BODY_THRESHOLD)
      tps_writer_put_bytes (out, pieces[i].iov_base, pieces[i].iov_len);
    else
      splice_bytes (out, pieces[i].iov_base, pieces[i].iov_len, NULL);
}
