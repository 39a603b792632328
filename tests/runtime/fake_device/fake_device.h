/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Two fake devices, "cuda:0" and "cuda:1", that are as strict as a real device may be: the host
 * cannot access their memory, and work runs only when a thread waits for it. They compute like the
 * CPU. See README.md.
 *
 * The following violations of the contract of runtime/device/backend.h terminate the process with a
 * line that names the operation:
 *
 *   - an operation on memory of another device
 *   - an operation on host memory that is not page-locked, except for copies
 *   - an operation beyond the end of a buffer
 *   - the release of the last reference to a buffer while an operation on it is queued
 *
 * An access of the host to device memory is a segmentation fault.
 *
 * Thread: any. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

#define TPS_FAKE_DEVICES 2

/* Returns device number `index` of this process, even if no library lists it. The device lives as
 * long as the process. */
TpsDevice *tps_fake_device_get (guint index);

/* Lets the `n`th allocation from now on, of device or page-locked memory, fail with
 * RESOURCE_EXHAUSTED. 0 = no allocation fails. */
void tps_fake_device_fail_alloc (TpsDevice *device, guint n);

/* From now on, every operation that can fail fails with DEVICE_LOST, and queued work is dropped.
 * FALSE restores the device, except for streams that have failed. */
void tps_fake_device_set_lost (TpsDevice *device, gboolean is_lost);

/* Return the number of allocations so far, including failed ones, and the number of bytes that are
 * currently allocated, including page-locked ones. */
guint tps_fake_device_get_n_allocs (TpsDevice *device);
gsize tps_fake_device_get_n_bytes (TpsDevice *device);

/* The same functions for the devices of a library that this process has loaded. These devices
 * differ from those of tps_fake_device_get(). tps_device_library_get ()->library->find_interface
 * (TPS_FAKE_DEVICE_CONTROL) returns a TpsFakeDeviceControl. */
#define TPS_FAKE_DEVICE_CONTROL "fake_device"

typedef struct
{
  void (*fail_alloc) (TpsDevice *device, guint n);
  void (*set_lost) (TpsDevice *device, gboolean is_lost);
  guint (*get_n_allocs) (TpsDevice *device);
  gsize (*get_n_bytes) (TpsDevice *device);
} TpsFakeDeviceControl;

G_END_DECLS
