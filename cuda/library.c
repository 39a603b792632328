/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The only symbol that libtps_cuda.so exports: tps_device_library. */

#include <cuda_runtime_api.h>

#include "cuda/device/device.h"
#include "cuda/group/nccl_process_group.h"
#include "runtime/device/device_library.h"
#include "runtime/base/error.h"

/* Appends the name of a device and, if CUDA provides them, its model, generation and memory. */
static void
add_words (GString *words, const gchar *separator, TpsCudaDevice *device)
{
  struct cudaDeviceProp properties;

  if (cudaGetDeviceProperties (&properties, device->ordinal) == cudaSuccess)
    g_string_append_printf (words, "%s%s %s (%d.%d), %.0f GiB", separator, device->name,
                            properties.name, properties.major, properties.minor,
                            (gdouble) properties.totalGlobalMem / (1 << 30));
  else
    g_string_append_printf (words, "%s%s", separator, device->name);
}

/* Adds the usable devices to `devices` and `words`. `error` describes the first device that is not
 * usable. */
static void
add_devices (gint n_devices, GPtrArray *devices, GString *words, GError **error)
{
  for (gint ordinal = 0; ordinal < n_devices; ordinal++)
    {
      g_autoptr (GError) failure = NULL;
      TpsCudaDevice *device = tps_cuda_device_new (ordinal, &tps_cuda_ops, &failure);

      if (device != NULL)
        {
          device->parent.dense = &tps_cuda_dense_ops;
          add_words (words, devices->len > 0 ? "; " : "", device);
          g_ptr_array_add (devices, device);
        }
      else if (error != NULL && *error == NULL)
        g_propagate_error (error, g_steal_pointer (&failure));
    }
}

static gboolean
open_library (GPtrArray *devices, GString *words, GError **error)
{
  g_autoptr (GError) failure = NULL;
  int n_devices = 0;
  cudaError_t code = cudaGetDeviceCount (&n_devices);

  if (code != cudaSuccess || n_devices == 0)
    return tps_fail (error, TPS_ERROR_UNAVAILABLE, "a driver, but no GPU: %s",
                     code != cudaSuccess ? cudaGetErrorString (code) : "it lists none");
  add_devices (n_devices, devices, words, &failure);
  if (devices->len > 0)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

static gconstpointer
find_interface (const gchar *name)
{
  return g_str_equal (name, TPS_DEVICE_GROUPS_INTERFACE) ? &tps_nccl_groups : NULL;
}

extern const TpsDeviceLibrary tps_device_library;

__attribute__ ((visibility ("default"))) const TpsDeviceLibrary tps_device_library = {
  .abi = TPS_DEVICE_LIBRARY_ABI,
  .ops_bytes = sizeof (TpsDeviceOps),
  .version = TPS_VERSION,
  .open = open_library,
  .find_interface = find_interface,
};
