/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The fake devices with deliberate faults. sgd() loses the device. accumulate() leaves out
 * the last element, and three results are wrong: Adagrad's last state, the second of the different
 * ids, and the losses of cross-entropy. */

#include <thriftps/error.h>
#include "runtime/device/dense.h"
#include "runtime/device/device_library.h"
#include "tests/runtime/fake_device/fake_device.h"

static const TpsDeviceOps *fake_ops;
static const TpsDenseOps *fake_dense;

static void
accumulate_most (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                 gsize n_elems)
{
  fake_ops->accumulate (stream, dtype, sum, gradient, n_elems - 1);
}

static void
lose_device (TpsStream *stream, const TpsSgdFactors *, gfloat *, const gfloat *, gfloat *, gsize)
{
  tps_fake_device_set_lost (stream->device, TRUE);
}

static void
spoil_state (TpsStream *stream, const TpsOptimizerSpec *spec, gint64 step,
             const TpsRowUpdate *update)
{
  gsize n = update->n_rows * update->dim;

  fake_ops->update_rows (stream, spec, step, update);
  if (spec->kind == TPS_OPTIMIZER_ADAGRAD)
    fake_ops->fill (stream, TPS_DTYPE_FLOAT32, update->state + n - 1, 7, 1);
}

static void
spoil_ids (TpsStream *stream, const TpsBags *bags, const gfloat *gradient, gint64 *unique,
           gfloat *sums, gint64 *n_unique)
{
  fake_ops->embedding_backward_rows (stream, bags, gradient, unique, sums, n_unique);
  fake_ops->fill (stream, TPS_DTYPE_INT64, unique + 1, 0, 1);
}

static void
spoil_loss (TpsStream *stream, gdouble *loss, gfloat *gradient, const gfloat *input,
            const gint64 *target, gsize rows, gsize columns)
{
  fake_dense->cross_entropy (stream, loss, gradient, input, target, rows, columns);
  if (loss != NULL)
    fake_ops->fill (stream, TPS_DTYPE_FLOAT64, loss, 1, 1);
}

static gboolean
open_library (GPtrArray *devices, GString *words, GError **)
{
  static TpsDeviceOps ops;
  static TpsDenseOps dense;
  TpsDevice *device = tps_fake_device_get (0);

  fake_ops = device->ops;
  ops = *fake_ops;
  fake_dense = device->dense;
  dense = *fake_dense;
  ops.accumulate = accumulate_most;
  dense.sgd = lose_device;
  ops.update_rows = spoil_state;
  ops.embedding_backward_rows = spoil_ids;
  dense.cross_entropy = spoil_loss;
  device->ops = &ops;
  device->dense = &dense;
  g_ptr_array_add (devices, device);
  g_string_append_printf (words, "%s a fake with faults", device->name);
  return TRUE;
}

extern "C" const TpsDeviceLibrary tps_device_library;

const TpsDeviceLibrary tps_device_library = {
  .abi = TPS_DEVICE_LIBRARY_ABI,
  .ops_bytes = sizeof (TpsDeviceOps),
  .version = TPS_VERSION,
  .open = open_library,
};
