/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/buckets/parameters_digest.h"

#include <string.h>
#include <xxhash.h>

static gsize
count_most_elems (const TpsModel *model)
{
  gint64 most = 0;

  for (guint i = 0; i < model->n_parameters; i++)
    most = MAX (most, tps_shape_n_elems (&model->parameters[i].shape));
  return (gsize) most;
}

static void
update (XXH3_state_t *state, const TpsParameter *parameter, const gfloat *values)
{
  XXH3_128bits_update (state, values, tps_shape_n_bytes (&parameter->shape));
}

/* Waits for the model's stream. */
static gboolean
read_values (const TpsModel *model, const TpsParameter *parameter, gfloat *values, GError **error)
{
  const TpsDeviceOps *ops = model->stream->device->ops;

  ops->copy (model->stream, values, parameter->value, tps_shape_n_bytes (&parameter->shape));
  return ops->stream_sync (model->stream, error);
}

static gboolean
update_from_device (XXH3_state_t *state, const TpsModel *model, GError **error)
{
  g_autofree gfloat *values = g_new (gfloat, count_most_elems (model));

  for (guint i = 0; i < model->n_parameters; i++)
    {
      const TpsParameter *parameter = &model->parameters[i];

      if (!read_values (model, parameter, values, error))
        return FALSE;
      update (state, parameter, values);
    }
  return TRUE;
}

gboolean
tps_parameters_digest (const TpsModel *model, guint8 digest[16], GError **error)
{
  gboolean is_on_host = model->stream->device->is_host;
  XXH3_state_t *state = XXH3_createState ();
  XXH128_canonical_t canonical;
  gboolean ok;

  XXH3_128bits_reset (state);
  for (guint i = 0; is_on_host && i < model->n_parameters; i++)
    update (state, &model->parameters[i], model->parameters[i].value);
  ok = is_on_host || update_from_device (state, model, error);
  XXH128_canonicalFromHash (&canonical, XXH3_128bits_digest (state));
  XXH3_freeState (state);
  if (ok)
    memcpy (digest, canonical.digest, sizeof canonical.digest);
  return ok;
}
