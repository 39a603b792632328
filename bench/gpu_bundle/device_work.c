/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/gpu_bundle/device_work.h"

#include "bench/gpu_bundle/device_ids.h"

typedef TpsDeviceWork Work;
typedef TpsDeviceCase Case;

static const TpsDeviceOps *
ops_of (const Work *work)
{
  return work->device->ops;
}

void
tps_device_work_clear (TpsDeviceWork *work)
{
  g_clear_pointer (&work->a, tps_buffer_unref);
  g_clear_pointer (&work->b, tps_buffer_unref);
  g_clear_pointer (&work->state, tps_buffer_unref);
  g_clear_pointer (&work->halves, tps_buffer_unref);
  g_clear_pointer (&work->ids, tps_buffer_unref);
  g_clear_pointer (&work->found_ids, tps_buffer_unref);
  g_clear_pointer (&work->loss, tps_buffer_unref);
  if (work->stream != NULL)
    ops_of (work)->stream_free (work->stream);
  work->stream = NULL;
}

static TpsBuffer *
alloc (const Work *work, gsize n_bytes, GError **error)
{
  return ops_of (work)->alloc (work->device, n_bytes, error);
}

TpsBuffer *
tps_device_work_repeat (const TpsDeviceWork *work, TpsBuffer *host, gsize n_bytes, GError **error)
{
  gsize n_done = MIN (tps_buffer_get_size (host), n_bytes);
  TpsBuffer *buffer = alloc (work, n_bytes, error);
  guint8 *bytes;

  if (buffer == NULL)
    return NULL;
  bytes = tps_buffer_get_data (buffer);
  ops_of (work)->copy (work->stream, bytes, tps_buffer_get_data (host), n_done);
  for (gsize n; n_done < n_bytes; n_done += n)
    {
      n = MIN (n_done, n_bytes - n_done);
      ops_of (work)->copy (work->stream, bytes + n_done, bytes, n);
    }
  if (ops_of (work)->stream_sync (work->stream, error))
    return buffer;
  tps_buffer_unref (buffer);
  return NULL;
}

TpsBuffer *
tps_device_work_alloc_host (const TpsDeviceWork *work, gsize n_bytes, GError **error)
{
  return ops_of (work)->alloc_host (work->device, n_bytes, error);
}

static TpsBuffer *
make_floats (const Work *work, gsize n_elems, guint seed, GError **error)
{
  g_autoptr (TpsBuffer)
      host = tps_device_work_alloc_host (work, TPS_DEVICE_PERIOD * sizeof (gfloat), error);

  if (host == NULL)
    return NULL;
  for (gsize i = 0; i < TPS_DEVICE_PERIOD; i++)
    tps_device_floats_of (host)[i] = (gfloat) ((i * 2654435761u + seed) % 10007) / 10007 + 0.001f;
  return tps_device_work_repeat (work, host, n_elems * sizeof (gfloat), error);
}

/* Makes ids that the device cannot compute. */
static TpsBuffer *
draw_ids (Work *work, const Case *entry, gsize n_bytes, GError **error)
{
  g_autoptr (TpsBuffer) host = tps_device_work_alloc_host (work, n_bytes, error);

  if (host == NULL)
    return NULL;
  tps_device_ids_of (host)[0] = 0;
  work->n_different_ids = tps_device_case_fill_ids (work->n_elems, entry, tps_device_ids_of (host));
  return tps_device_work_repeat (work, host, n_bytes, error);
}

static gboolean
make_ids (Work *work, const Case *entry, GError **error)
{
  gsize n_ids = tps_device_case_get_n_ids (work->n_elems, entry);
  gsize n_bytes = MAX (n_ids, 1) * sizeof (gint64);
  TpsDeviceIdRule rule;

  work->found_ids = alloc (work, (n_ids + 1) * sizeof (gint64), error);
  if (work->found_ids == NULL)
    return FALSE;
  if (!tps_device_case_get_id_rule (work->n_elems, entry, &rule)
      || !tps_device_ids_can_fill (&rule, n_ids))
    return (work->ids = draw_ids (work, entry, n_bytes, error)) != NULL;
  work->n_different_ids = rule.n_different;
  work->ids = alloc (work, n_bytes, error);
  return work->ids != NULL
         && tps_device_ids_fill (work->stream, &rule, n_ids, tps_device_ids_of (work->ids), error);
}

static gboolean
make_halves (Work *work, const Case *entry, GError **error)
{
  if (entry->dtype == 0)
    return TRUE;
  work->halves = alloc (work, work->n_elems * tps_dtype_size (entry->dtype), error);
  if (work->halves == NULL)
    return FALSE;
  if (entry->has_half_rows)
    {
      ops_of (work)->cast (work->stream, entry->dtype, tps_buffer_get_data (work->halves),
                           TPS_DTYPE_FLOAT32, tps_buffer_get_data (work->a), work->n_elems);
      ops_of (work)->copy (work->stream, tps_buffer_get_data (work->a),
                           tps_buffer_get_data (work->halves),
                           work->n_elems * tps_dtype_size (entry->dtype));
    }
  ops_of (work)->cast (work->stream, entry->dtype, tps_buffer_get_data (work->halves),
                       TPS_DTYPE_FLOAT32, tps_buffer_get_data (work->b), work->n_elems);
  return TRUE;
}

gboolean
tps_device_work_init (TpsDeviceWork *work, TpsDevice *device, gsize n_elems,
                      const TpsDeviceCase *entry, GError **error)
{
  *work = (Work) { .device = device, .n_elems = n_elems };
  return (work->stream = device->ops->stream_new (device, error)) != NULL
         && (work->a = make_floats (work, n_elems, 1, error)) != NULL
         && (work->b = make_floats (work, n_elems, 2, error)) != NULL
         && (work->state = make_floats (work, n_elems * 2, 3, error)) != NULL
         && (work->loss = alloc (work, sizeof (gdouble), error)) != NULL
         && make_halves (work, entry, error) && make_ids (work, entry, error);
}

gboolean
tps_device_has_memory_for (TpsDevice *device, gsize n_elems)
{
  TpsBuffer *arrays[7] = { NULL };
  gboolean is_enough = TRUE;

  for (guint i = 0; i < G_N_ELEMENTS (arrays) && is_enough; i++)
    {
      arrays[i] = device->ops->alloc (device, n_elems * sizeof (gfloat), NULL);
      is_enough = arrays[i] != NULL;
    }
  for (guint i = 0; i < G_N_ELEMENTS (arrays); i++)
    g_clear_pointer (&arrays[i], tps_buffer_unref);
  return is_enough;
}
