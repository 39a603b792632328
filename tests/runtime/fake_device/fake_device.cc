/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/fake_device/fake_device.h"

#include <cstring>

#include "tests/runtime/fake_device/memory.h"
#include "tests/runtime/fake_device/operations.h"
#include "tests/runtime/fake_device/queue.h"

using fake_device::Device;

namespace {

TpsBuffer *
alloc (TpsDevice *device, gsize n_bytes, GError **error)
{
  std::lock_guard<std::mutex> guard (fake_device::lock ());

  return fake_device::allocate (device, n_bytes, false, nullptr, error);
}

TpsBuffer *
alloc_host (TpsDevice *device, gsize n_bytes, GError **error)
{
  std::lock_guard<std::mutex> guard (fake_device::lock ());

  return fake_device::allocate (device, n_bytes, true, nullptr, error);
}

TpsBuffer *
alloc_exported (TpsDevice *device, gsize n_bytes, guint8 *handle, GError **error)
{
  std::lock_guard<std::mutex> guard (fake_device::lock ());

  return fake_device::allocate (device, n_bytes, false, handle, error);
}

TpsBuffer *
open_exported (TpsDevice *device, const guint8 *handle, gsize n_bytes, GError **error)
{
  std::lock_guard<std::mutex> guard (fake_device::lock ());

  return fake_device::open_exported (device, handle, n_bytes, error);
}

void
get_uuid (TpsDevice *device, guint8 *uuid)
{
  memset (uuid, 0, TPS_DEVICE_UUID_BYTES);
  g_strlcpy ((gchar *) uuid, device->name, TPS_DEVICE_UUID_BYTES);
}

TpsDeviceOps
make_operations ()
{
  TpsDeviceOps ops = {};

  ops.name = "cuda";
  ops.alloc = alloc;
  ops.alloc_host = alloc_host;
  ops.alloc_exported = alloc_exported;
  ops.open_exported = open_exported;
  ops.get_uuid = get_uuid;
  fake_device::fill_queue_operations (&ops);
  fake_device::fill_operations (&ops);
  return ops;
}

Device *
to_fake (TpsDevice *device)
{
  return reinterpret_cast<Device *> (device);
}

} // namespace

TpsDevice *
tps_fake_device_get (guint index)
{
  static const TpsDeviceOps ops = make_operations ();
  static Device devices[TPS_FAKE_DEVICES] = {
    { { &ops, "cuda:0", FALSE, &fake_device::dense_operations }, 0, FALSE, 0, 0 },
    { { &ops, "cuda:1", FALSE, &fake_device::dense_operations }, 0, FALSE, 0, 0 },
  };

  return &devices[index].base;
}

void
tps_fake_device_fail_alloc (TpsDevice *device, guint n)
{
  std::lock_guard<std::mutex> guard (fake_device::lock ());

  to_fake (device)->fail_alloc = n;
}

void
tps_fake_device_set_lost (TpsDevice *device, gboolean is_lost)
{
  std::lock_guard<std::mutex> guard (fake_device::lock ());

  to_fake (device)->is_lost = is_lost;
}

guint
tps_fake_device_get_n_allocs (TpsDevice *device)
{
  std::lock_guard<std::mutex> guard (fake_device::lock ());

  return to_fake (device)->n_allocs;
}

gsize
tps_fake_device_get_n_bytes (TpsDevice *device)
{
  std::lock_guard<std::mutex> guard (fake_device::lock ());

  return to_fake (device)->n_bytes;
}
