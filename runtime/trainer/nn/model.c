/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/model.h"

#include "runtime/trainer/nn/dummy_model.h"
#include "runtime/trainer/nn/hybrid_model.h"
#include "runtime/trainer/nn/linear_model.h"
#include "runtime/trainer/dense/dense.h"

static const gconstpointer built_in[] = { &tps_dummy_model_class, &tps_hybrid_model_class,
                                          &tps_linear_model_class };

TpsRegistry tps_model_class_registry = TPS_REGISTRY_INIT ("model", built_in);

gboolean
tps_model_init (TpsModel *model, const TpsModelClass *klass, TpsDevice *device, GError **error)
{
  if (device == NULL)
    device = tps_device_find ("cpu", error);
  model->klass = klass;
  model->stream = device != NULL ? device->ops->stream_new (device, error) : NULL;
  return model->stream != NULL;
}

void
tps_model_clear (TpsModel *model)
{
  if (model->stream != NULL)
    model->stream->device->ops->stream_free (model->stream);
  model->stream = NULL;
}

/* -- filling parameters -- */

static gsize
get_n_elems (const TpsModel *model)
{
  gsize n_elems = 0;

  for (guint i = 0; i < model->n_parameters; i++)
    n_elems += (gsize) tps_shape_n_elems (&model->parameters[i].shape);
  return n_elems;
}

/* Binds all parameters to consecutive memory in `host`, and saves their previous addresses in
 * `bound`. */
static void
bind_to_host (TpsModel *model, gfloat *host, gfloat **bound)
{
  for (guint i = 0; i < model->n_parameters; i++)
    {
      bound[i] = model->parameters[i].value;
      model->parameters[i].value = host;
      host += tps_shape_n_elems (&model->parameters[i].shape);
    }
}

/* Restores the previous addresses of the parameters, and enqueues copies of the values to them. */
static void
copy_to_bound (TpsModel *model, gfloat *const *bound)
{
  for (guint i = 0; i < model->n_parameters; i++)
    {
      TpsParameter *parameter = &model->parameters[i];
      const gfloat *host = parameter->value;

      parameter->value = bound[i];
      model->stream->device->ops->copy (model->stream, parameter->value, host,
                                        tps_shape_n_bytes (&parameter->shape));
    }
}

gboolean
tps_model_fill_parameters (TpsModel *model, gint64 seed, GError **error)
{
  TpsDevice *device = model->stream->device;
  g_autofree gfloat **bound = NULL;
  g_autoptr (TpsBuffer) host = NULL;

  if (device->is_host)
    {
      model->klass->init_parameters (model, seed);
      return TRUE;
    }
  host = device->ops->alloc_host (device, get_n_elems (model) * sizeof (gfloat), error);
  if (host == NULL)
    return FALSE;
  bound = g_new0 (gfloat *, model->n_parameters);
  bind_to_host (model, (gfloat *) (gpointer) tps_buffer_get_data (host), bound);
  model->klass->init_parameters (model, seed);
  copy_to_bound (model, bound);
  return device->ops->stream_sync (model->stream, error);
}

/* -- losses -- */

static void
cross_entropy (TpsStream *stream, TpsTensorView output, TpsTensorView target, gdouble *loss,
               gfloat *output_gradient)
{
  tps_dense_ops (stream)->cross_entropy (stream, loss, output_gradient, output.data, target.data,
                                         (gsize) output.shape.dims[0],
                                         (gsize) output.shape.dims[1]);
}

static const TpsCriterion cross_entropy_loss = { "cel", cross_entropy };

static void
l1_loss (TpsStream *stream, TpsTensorView output, TpsTensorView target, gdouble *loss,
         gfloat *output_gradient)
{
  tps_dense_ops (stream)->l1_loss (stream, loss, output_gradient, output.data, target.data,
                                   (gsize) tps_shape_n_elems (&output.shape));
}

static const TpsCriterion absolute_loss = { "l1", l1_loss };

static const gconstpointer built_in_losses[] = { &cross_entropy_loss, &absolute_loss };

TpsRegistry tps_criterion_registry = TPS_REGISTRY_INIT ("criterion", built_in_losses);
