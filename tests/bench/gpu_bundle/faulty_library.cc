/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The fake devices with two faults: accumulate() leaves out the last of many elements, and sgd()
 * loses the device. */

#include "bench/gpu_bundle/device_cases.h"
#include "runtime/base/version.h"
#include "runtime/device/device_library.h"
#include "tests/runtime/fake_device/fake_device.h"

static const TpsDeviceOps *fake_ops;

static void
accumulate_most (TpsStream *stream, TpsDType dtype, gpointer sum, gconstpointer gradient,
                 gsize n_elems)
{
  fake_ops->accumulate (stream, dtype, sum, gradient,
                        n_elems > TPS_DEVICE_CHECK_ELEMS ? n_elems - 1 : n_elems);
}

static void
lose_device (TpsStream *stream, const TpsSgdFactors *, gfloat *, const gfloat *, gfloat *, gsize)
{
  tps_fake_device_set_lost (stream->device, TRUE);
}

static gboolean
open_library (GPtrArray *devices, GString *words, GError **)
{
  static TpsDeviceOps ops;
  TpsDevice *device = tps_fake_device_get (0);

  fake_ops = device->ops;
  ops = *fake_ops;
  ops.accumulate = accumulate_most;
  ops.sgd = lose_device;
  device->ops = &ops;
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
