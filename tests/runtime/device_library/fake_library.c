/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fake libtps_cuda.so. Its build defines FAKE_ABI, FAKE_VERSION, FAKE_OPS_BYTES and
 * FAKE_DEVICES. */

#include "runtime/device/device_library.h"
#include "runtime/base/error.h"

static gboolean
fake_open (GPtrArray *devices, GString *words, GError **error)
{
  static TpsDevice fakes[2] = { { .name = "cuda:0" }, { .name = "cuda:1" } };

  for (gint i = 0; i < FAKE_DEVICES; i++)
    {
      g_ptr_array_add (devices, &fakes[i]);
      g_string_append_printf (words, "%s%s Fake", i > 0 ? "; " : "", fakes[i].name);
    }
  if (FAKE_DEVICES > 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "all %d devices are too old", 1);
  return FALSE;
}

static gconstpointer
fake_find_interface (const gchar *name)
{
  return NULL;
}

extern const TpsDeviceLibrary tps_device_library;

const TpsDeviceLibrary tps_device_library = {
  .abi = FAKE_ABI,
  .ops_bytes = FAKE_OPS_BYTES,
  .version = FAKE_VERSION,
  .open = fake_open,
  .find_interface = fake_find_interface,
};
