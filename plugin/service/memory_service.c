/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/memory_service.h"

#include <unistd.h>

#include "plugin/service/methods.h"
#include "plugin/wire/wire_memory.h"
#include "runtime/base/error.h"

/* ---- open_segment, open_lookup_segment ------------------------------------------------------ */

typedef struct
{
  TpsSegmentRegistry *segments; /* a reference while replies are held back; otherwise NULL */
  TpsSegmentInfo info;
  gint fd;                  /* -1 = no descriptor is sent */
  TpsSegmentCharge *charge; /* of `fd`; NULL = no descriptor is sent */
} Opened;

static void
resume_answers (gpointer data)
{
  TpsSegmentRegistry *segments = data;

  tps_segment_registry_resume_answers (segments);
  tps_segment_registry_unref (segments);
}

static gboolean
open_of_kind (TpsSegmentRegistry *segments, const TpsOpenSegmentArguments *arguments,
              Opened *opened, GError **error)
{
  TpsSegmentInfo *info = &opened->info;
  gsize n_bytes = (gsize) arguments->n_bytes, size = 0;
  gboolean ok;

  info->has_handle = arguments->kind == TPS_SEGMENT_CUDA_IPC;
  if (info->has_handle)
    ok = tps_segment_registry_open_exported (segments, arguments->use, n_bytes, &info->id, &size,
                                             info->handle, error);
  else
    ok = tps_segment_registry_open (segments, arguments->use, n_bytes, &info->id, &size,
                                    &opened->fd, &opened->charge, error);
  info->n_bytes = (gint64) size;
  return ok;
}

/* Holds replies back until the reply to this call is queued. Returns the segments of the
 * connection, or NULL if no memory is offered. */
static TpsSegmentRegistry *
begin_open (TpsCall *call, Opened *opened, GError **error)
{
  TpsSegmentRegistry *segments = tps_call_get_segments (call, error);

  if (segments == NULL)
    return NULL;
  opened->segments = tps_segment_registry_ref (segments);
  tps_segment_registry_hold_answers (segments);
  return segments;
}

static gboolean
open_segment (TpsCall *call, Opened *opened, GError **error)
{
  TpsSegmentRegistry *segments = begin_open (call, opened, error);
  TpsOpenSegmentArguments arguments = { 0 };

  return segments != NULL && tps_call_read_arguments (call, &arguments, error)
         && open_of_kind (segments, &arguments, opened, error);
}

static gboolean
open_lookup_segment (TpsCall *call, Opened *opened, GError **error)
{
  TpsSegmentRegistry *segments = begin_open (call, opened, error);
  TpsSegmentInfo *info = &opened->info;
  gint64 n_wanted = 0;
  gsize size = 0;

  if (segments == NULL || !tps_call_read_arguments (call, &n_wanted, error)
      || !tps_segment_registry_open_for_lookups (segments, (gsize) n_wanted, &info->id, &size,
                                                 info->handle, error))
    return FALSE;
  info->has_handle = TRUE;
  info->n_bytes = (gint64) size;
  return TRUE;
}

/* Writes the reply. open_segment and open_lookup_segment have the same result. The descriptor is
 * charged until it has been sent with the reply. Otherwise, a client that closes segments but does
 * not read replies could make the server hold any number of unsent descriptors. Later replies may
 * use the segment, so they are held back until this reply is queued. */
static void
write_opened (TpsWriter *out, gconstpointer data)
{
  Opened *opened = (Opened *) (gsize) data;

  tps_rpc_write_result (&tps_open_segment_rpc, out, &opened->info);
  if (opened->fd >= 0)
    {
      tps_writer_take_descriptor (out, opened->fd);
      tps_writer_set_released (out, (GDestroyNotify) tps_segment_charge_unref,
                               g_steal_pointer (&opened->charge));
    }
  opened->fd = -1;
  tps_writer_set_queued (out, resume_answers, g_steal_pointer (&opened->segments));
}

static void
answer_open (TpsCall *call, gboolean (*open) (TpsCall *call, Opened *opened, GError **error))
{
  g_autoptr (GError) error = NULL;
  Opened opened = { .fd = -1 };

  if (open (call, &opened, &error))
    tps_call_reply (call, write_opened, &opened);
  else
    tps_call_reply_error (call, error);
  if (opened.fd >= 0)
    close (opened.fd);
  g_clear_pointer (&opened.charge, tps_segment_charge_unref);
  g_clear_pointer (&opened.segments, resume_answers);
}

static void
handle_open_segment (TpsCall *call, gpointer unused)
{
  answer_open (call, open_segment);
}

static void
handle_open_lookup_segment (TpsCall *call, gpointer unused)
{
  answer_open (call, open_lookup_segment);
}

/* ---- release_segments, close_segments ------------------------------------------------------- */

typedef gboolean (*EndSegments) (TpsSegmentRegistry *segments, const gint64 *ids, guint n_ids,
                                 GError **error);

static void
end_segments (TpsCall *call, EndSegments end)
{
  g_auto (TpsSegmentIds) ids = { 0 };
  g_autoptr (GError) error = NULL;
  TpsSegmentRegistry *segments = tps_call_get_segments (call, &error);

  if (segments != NULL && tps_call_read_arguments (call, &ids, &error))
    end (segments, ids.ids, ids.n_ids, &error);
  tps_call_reply_done (call, error);
}

static void
handle_release_segments (TpsCall *call, gpointer unused)
{
  end_segments (call, tps_segment_registry_release);
}

static void
handle_close_segments (TpsCall *call, gpointer unused)
{
  end_segments (call, tps_segment_registry_close);
}

/* Segments are opened and closed on workers: the allocation of 4 GiB takes about a second, and the
 * release a third of a second. */
static const TpsMethod methods[] = { TPS_MEMORY_METHODS (handle_), { 0 } };

TpsService
tps_memory_service (void)
{
  return (TpsService) { .name = "Memory", .methods = methods };
}
