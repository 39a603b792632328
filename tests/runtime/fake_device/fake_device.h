/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Two fake devices, "cuda:0" and "cuda:1", that are as strict as a real one may be: the host cannot
 * access their memory, and work runs only when it is waited for. They compute like the CPU. See
 * README.md.
 *
 * The following violate the contract of runtime/device/backend.h, and end the process with a line
 * that names the operation: an operation on memory of another device, on host memory that is not
 * page-locked (except copies), or beyond the end of a buffer; and a buffer whose last reference is
 * released while an operation on it is queued. An access of the host to device memory is a
 * segmentation fault.
 *
 * Thread: any. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

#define TPS_FAKE_DEVICES 2

/* Device number `index` of this process, whether a library lists it or not; it lives as long as the
 * process. */
TpsDevice *tps_fake_device_get (guint index);

/* The `n`th allocation from now on, of device or page-locked memory, fails with RESOURCE_EXHAUSTED;
 * 0 = no allocation fails. */
void tps_fake_device_fail_alloc (TpsDevice *device, guint n);

/* From now on every operation that can fail fails with DEVICE_LOST, and queued work is dropped.
 * FALSE restores the device, except for streams that have failed. */
void tps_fake_device_set_lost (TpsDevice *device, gboolean is_lost);

/* Allocations so far, including failed ones; bytes that are currently allocated, including
 * page-locked ones. */
guint tps_fake_device_get_n_allocs (TpsDevice *device);
gsize tps_fake_device_get_n_bytes (TpsDevice *device);

/* The same for the devices of a library that this process has loaded, which differ from those of
 * tps_fake_device_get(). Call tps_device_library_get ()->library->find_interface
 * (TPS_FAKE_DEVICE_CONTROL). */
#define TPS_FAKE_DEVICE_CONTROL "fake_device"

typedef struct
{
  void (*fail_alloc) (TpsDevice *device, guint n);
  void (*set_lost) (TpsDevice *device, gboolean is_lost);
  guint (*get_n_allocs) (TpsDevice *device);
  gsize (*get_n_bytes) (TpsDevice *device);
} TpsFakeDeviceControl;

G_END_DECLS
