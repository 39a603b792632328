/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/device_caller.h"

#include "bench/lookup/step.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/device_memory.h"

/* A client opens a shared segment only after a result in host memory, so the first results are
 * there. */
#define MAX_FIRST_LOOKUPS 1000

struct TpsLookupDeviceCaller
{
  const TpsLookupBags *bags;
  const gchar *table;
  TpsRemoteTables *tables;
  gint64 *offsets; /* [n_bags] */
  TpsStream *stream;
  TpsBuffer *array; /* [n_bags, dim], on the device */
  guint n_results, n_there;
};

static gsize
get_n_bytes (const TpsLookupDeviceCaller *caller)
{
  return caller->bags->shape.n_bags * caller->bags->shape.dim * sizeof (gfloat);
}

/* -- a lookup -- */

/* Copies the result to the array, and waits until the copy has ended: after the release of the
 * result, the server may write the next result to the same memory. */
static gboolean
take (TpsLookupDeviceCaller *caller, TpsTensor *result, GError **error)
{
  const TpsDeviceOps *ops = caller->stream->device->ops;

  ops->copy (caller->stream, tps_buffer_get_data (caller->array), tps_tensor_data (result),
             get_n_bytes (caller));
  return ops->stream_sync (caller->stream, error);
}

/* Looks up one batch. `*is_there` receives TRUE if the result was in memory of the device. */
static gboolean
look_up (TpsLookupDeviceCaller *caller, gsize batch, gboolean *is_there, GError **error)
{
  TpsBagQuery query = tps_lookup_make_query (caller->bags, caller->offsets, caller->table, batch);
  g_auto (TpsTensor) result = { 0 };

  if (!tps_remote_tables_lookup_bags_sync (
          caller->tables, &query, 1, tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, &result, error))
    return FALSE;
  *is_there = tps_device_memory_of_tensor (&result) != NULL;
  return take (caller, &result, error);
}

static gboolean
look_up_until_there (TpsLookupDeviceCaller *caller, GError **error)
{
  gboolean is_there = FALSE;

  for (guint i = 0; i < MAX_FIRST_LOOKUPS && !is_there; i++)
    if (!look_up (caller, i, &is_there, error))
      return FALSE;
  if (!is_there)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                 "no result of %d lookups was in memory of %s: the server and this program do not "
                 "share it",
                 MAX_FIRST_LOOKUPS, caller->stream->device->name);
  return is_there;
}

/* -- life -- */

TpsLookupDeviceCaller *
tps_lookup_device_caller_new (const TpsLookupServer *server, const TpsLookupBags *bags,
                              const gchar *table, TpsDevice *device, TpsLookupWay way,
                              GError **error)
{
  g_autoptr (TpsLookupDeviceCaller) caller = g_new0 (TpsLookupDeviceCaller, 1);
  TpsDevice *lookup_device = way == TPS_LOOKUP_ON_DEVICE ? device : NULL;

  caller->bags = bags;
  caller->table = table;
  caller->offsets = tps_lookup_make_offsets (&bags->shape);
  caller->tables = tps_lookup_server_connect (server, 0, lookup_device, error);
  if (caller->tables == NULL)
    return NULL;
  caller->stream = device->ops->stream_new (device, error);
  if (caller->stream == NULL)
    return NULL;
  caller->array = device->ops->alloc (device, get_n_bytes (caller), error);
  if (caller->array == NULL || (lookup_device != NULL && !look_up_until_there (caller, error)))
    return NULL;
  return g_steal_pointer (&caller);
}

void
tps_lookup_device_caller_free (TpsLookupDeviceCaller *caller)
{
  if (caller->stream != NULL)
    caller->stream->device->ops->stream_free (caller->stream);
  g_clear_pointer (&caller->array, tps_buffer_unref);
  g_clear_pointer (&caller->tables, tps_remote_tables_free);
  g_free (caller->offsets);
  g_free (caller);
}

/* -- runs -- */

static gboolean
sum_up_array (TpsLookupDeviceCaller *caller, gdouble *sum, GError **error)
{
  gsize n_bytes = get_n_bytes (caller);
  g_autofree gfloat *elements = g_malloc (n_bytes);

  if (!tps_device_memory_copy (caller->stream->device, elements,
                               tps_buffer_get_data (caller->array), n_bytes, error))
    return FALSE;
  *sum = tps_lookup_sum_up (elements, n_bytes / sizeof *elements);
  return TRUE;
}

gdouble
tps_lookup_device_caller_run (TpsLookupDeviceCaller *caller, gsize first, gsize n_batches,
                              gdouble *checksum, GError **error)
{
  gint64 start_ns = tps_clock_now_ns (), end_ns;

  for (gsize i = first; i < first + n_batches; i++)
    {
      gboolean is_there = FALSE;

      if (!look_up (caller, i, &is_there, error))
        return -1;
      caller->n_results++;
      caller->n_there += is_there;
    }
  end_ns = tps_clock_now_ns ();
  return sum_up_array (caller, checksum, error) ? (gdouble) (end_ns - start_ns) / 1e9 : -1;
}

guint
tps_lookup_device_caller_count (const TpsLookupDeviceCaller *caller, guint *n_there)
{
  *n_there = caller->n_there;
  return caller->n_results;
}
