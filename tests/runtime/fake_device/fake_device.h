/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Two devices, "cuda:0" and "cuda:1", that are as unkind as a real one may be: their memory is not
 * there for the host, and nothing is done before somebody waits for it. What they compute is what
 * the CPU computes. See README.md.
 *
 * Against the contract of runtime/device/backend.h, and so the end of the process with a line that
 * says which operation it was: an operation on memory of another device, on host memory that is not
 * page-locked (but copies), beyond the end of a buffer; and a buffer whose last reference goes
 * while an operation on it is queued. The host's touching of a device's memory is a segmentation
 * fault.
 *
 * Thread: any.
 */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

#define TPS_FAKE_DEVICES 2

/* Number `index`, of this process, whether a library lists it or not; lives as long as the
 * process. */
TpsDevice *tps_fake_device_get (guint index);

/* The `n`th allocation from now on, of the device's memory or page-locked, fails with
 * RESOURCE_EXHAUSTED; 0 = none does. */
void tps_fake_device_fail_alloc (TpsDevice *device, guint n);

/* From now on all that can fail does, with DEVICE_LOST; what is queued is dropped. FALSE: all well
 * again, but for streams that have seen it. */
void tps_fake_device_set_lost (TpsDevice *device, gboolean is_lost);

/* Allocations so far, the failed ones too; bytes that are allocated now, page-locked ones too. */
guint tps_fake_device_get_n_allocs (TpsDevice *device);
gsize tps_fake_device_get_n_bytes (TpsDevice *device);

/* The same of the devices of a library that this process has loaded; its devices are not those of
 * tps_fake_device_get(). By tps_device_library_get ()->library->find_interface
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
