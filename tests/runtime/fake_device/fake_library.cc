/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The fake devices as a loadable library. */

#include "runtime/device/device_library.h"
#include <thriftps/error.h>
#include "tests/runtime/fake_device/fake_device.h"

static gboolean
open_library (GPtrArray *devices, GString *words, GError **)
{
  for (guint i = 0; i < TPS_FAKE_DEVICES; i++)
    {
      TpsDevice *device = tps_fake_device_get (i);

      g_ptr_array_add (devices, device);
      g_string_append_printf (words, "%s%s a fake for tests", i > 0 ? "; " : "", device->name);
    }
  return TRUE;
}

static const TpsFakeDeviceControl control = {
  tps_fake_device_fail_alloc,
  tps_fake_device_set_lost,
  tps_fake_device_get_n_allocs,
  tps_fake_device_get_n_bytes,
};

static gconstpointer
find_interface (const gchar *name)
{
  return g_str_equal (name, TPS_FAKE_DEVICE_CONTROL) ? &control : nullptr;
}

extern "C" const TpsDeviceLibrary tps_device_library;

const TpsDeviceLibrary tps_device_library = {
  .abi = TPS_DEVICE_LIBRARY_ABI,
  .ops_bytes = sizeof (TpsDeviceOps),
  .version = TPS_VERSION,
  .open = open_library,
  .find_interface = find_interface,
};
