/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of dense gradients in a device's memory, with the bits of sums in host memory. Gradients are
 * copied to the device, unless they are there; the average is copied to the host, or stays. Streams
 * and memory are kept.
 *
 * Usage: new() -> add() in order -> sync(), before the gradients are released -> more of both ->
 * average() -> free(). Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; then the sum must only be freed.
 * Thread: one at a time for each sum; any for TpsDeviceSums. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* A set of idle lanes of a device. A lane is a stream with memory for one sum. */
typedef struct TpsDeviceSums TpsDeviceSums;
typedef struct TpsDeviceSum TpsDeviceSum;

/* Creates the set of sums on `device`, without lanes. Owned by the caller. `device` is borrowed. */
TpsDeviceSums *tps_device_sums_new (TpsDevice *device);
/* Returns the device, borrowed for the life of the process. */
TpsDevice *tps_device_sums_get_device (const TpsDeviceSums *sums);
/* Frees the idle lanes. All sums must have been freed. */
void tps_device_sums_free (TpsDeviceSums *sums);

/* Creates an empty sum of gradients of `dtype` with `n_elems` elements each. Owned by the caller.
 * Creating and freeing may block. */
TpsDeviceSum *tps_device_sum_new (TpsDeviceSums *sums, TpsDType dtype, gsize n_elems,
                                  GError **error);
void tps_device_sum_free (TpsDeviceSum *sum);

/* sum += weight * gradient; the first call sets sum = weight * gradient. Only enqueues. `gradient`
 * must lie in host memory; it stays borrowed and must not change until sync(), average() or
 * free(). */
void tps_device_sum_add (TpsDeviceSum *sum, gconstpointer gradient, gdouble weight);
/* As tps_device_sum_add(), but for a gradient in the device's memory, which is not copied. */
void tps_device_sum_add_there (TpsDeviceSum *sum, gconstpointer gradient, gdouble weight);

gboolean tps_device_sum_sync (TpsDeviceSum *sum, GError **error);

/* average = sum / divisor, in host memory, of the gradients' dtype. At least one gradient must have
 * been added. Waits for the result. */
gboolean tps_device_sum_average (TpsDeviceSum *sum, gpointer average, gdouble divisor,
                                 GError **error);
/* As tps_device_sum_average(), but returns the average in a new buffer in the device's memory,
 * owned by the caller; NULL on error. */
TpsBuffer *tps_device_sum_average_there (TpsDeviceSum *sum, gdouble divisor, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDeviceSum, tps_device_sum_free)

G_END_DECLS
