/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "cuda/device/device.h"

#include <stdatomic.h>
#include <string.h>

#include "cuda/device/failure.h"
#include "cuda/kernels/kernels.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* Marks the device as lost. Only the first reason is kept and logged. */
static void
die (TpsCudaDevice *device, const gchar *why)
{
  tps_mutex_lock (&device->lock);
  if (device->loss == NULL)
    {
      device->loss = g_strdup (why);
      g_warning ("%s: this device is lost: %s", device->name, why);
    }
  tps_mutex_unlock (&device->lock);
}

gboolean
tps_cuda_device_check (TpsCudaDevice *device, cudaError_t code, const gchar *what, GError **error)
{
  g_autofree gchar *why = NULL;

  if (code == cudaSuccess)
    return TRUE;
  why = g_strdup_printf ("%s: %s (%d: %s)", what, cudaGetErrorString (code), (gint) code,
                         cudaGetErrorName (code));
  cudaGetLastError (); /* clears the error, so that the next call does not report it again */
  g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "%s: %s", device->name, why);
  if (!tps_cuda_failure_is_passing (code))
    die (device, why);
  return FALSE;
}

static gboolean
check_alive (TpsCudaDevice *device, GError **error)
{
  gboolean is_alive;

  tps_mutex_lock (&device->lock);
  is_alive = device->loss == NULL;
  if (!is_alive)
    g_set_error (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "%s: the device was lost earlier: %s",
                 device->name, device->loss);
  tps_mutex_unlock (&device->lock);
  return is_alive;
}

/* -- starting a device -- */

#define MAX_DEVICES 64 /* devices that tps_cuda_device_enter_any() can find */

static _Atomic guint64 started_devices; /* one bit for each started device */

/* Starts the device. The start lock is held, and the device is the current one. */
static gboolean
start (TpsCudaDevice *device, GError **error)
{
  if (!tps_cuda_device_check (device, tps_cuda_probe (), "looking for code for this generation",
                              error)
      || !tps_cuda_device_check (device, tps_cuda_memory_start (device), "memory pool", error)
      || !tps_cuda_device_check (
          device, cudaStreamCreateWithFlags (&device->memory_stream, cudaStreamNonBlocking),
          "stream for memory", error))
    return FALSE;
  g_atomic_int_set (&device->is_started, TRUE);
  if (device->ordinal < MAX_DEVICES)
    atomic_fetch_or (&started_devices, G_GUINT64_CONSTANT (1) << device->ordinal);
  return TRUE;
}

static gboolean
start_once (TpsCudaDevice *device, GError **error)
{
  gboolean ok;

  tps_mutex_lock (&device->start_lock);
  ok = g_atomic_int_get (&device->is_started) || start (device, error);
  tps_mutex_unlock (&device->start_lock);
  return ok;
}

gboolean
tps_cuda_device_enter (TpsCudaDevice *device, GError **error)
{
  int current = -1;

  if (!check_alive (device, error))
    return FALSE;
  if ((cudaGetDevice (&current) != cudaSuccess || current != device->ordinal)
      && !tps_cuda_device_check (device, cudaSetDevice (device->ordinal), "cudaSetDevice", error))
    return FALSE;
  return g_atomic_int_get (&device->is_started) || start_once (device, error);
}

void
tps_cuda_device_enter_lost (TpsCudaDevice *device)
{
  cudaSetDevice (device->ordinal);
  cudaGetLastError (); /* clears the error */
}

gboolean
tps_cuda_device_enter_any (void)
{
  guint64 started = atomic_load (&started_devices);
  int current = -1;

  if (started == 0)
    return FALSE;
  if (cudaGetDevice (&current) == cudaSuccess && current >= 0 && current < MAX_DEVICES
      && (started >> current & 1) != 0)
    return TRUE;
  return cudaSetDevice (__builtin_ctzll (started)) == cudaSuccess;
}

/* -- creating a device -- */

/* Reads the properties without creating a context on the device. */
static gboolean
read_properties (TpsCudaDevice *device, GError **error)
{
  struct cudaDeviceProp properties;

  if (!tps_cuda_device_check (device, cudaGetDeviceProperties (&properties, device->ordinal),
                              "properties", error))
    return FALSE;
  memcpy (device->uuid, &properties.uuid, sizeof device->uuid);
  device->n_bytes = properties.totalGlobalMem;
  if (tps_cuda_has_code_for (properties.major, properties.minor))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "%s: %s is of generation %d.%d, for which this library has no code", device->name,
               properties.name, properties.major, properties.minor);
  return FALSE;
}

TpsCudaDevice *
tps_cuda_device_new (gint ordinal, const TpsDeviceOps *ops, GError **error)
{
  TpsCudaDevice *device = g_new0 (TpsCudaDevice, 1);

  g_snprintf (device->name, sizeof device->name, "cuda:%d", ordinal);
  device->parent = (TpsDevice) { .ops = ops, .name = device->name };
  device->ordinal = ordinal;
  tps_mutex_init (&device->lock);
  tps_mutex_init (&device->start_lock);
  if (read_properties (device, error))
    return device;
  tps_mutex_clear (&device->start_lock);
  tps_mutex_clear (&device->lock);
  g_free (device->loss);
  g_free (device);
  return NULL;
}
