/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of dense gradients in a device's memory, with the same bits as sums in host memory
 * (runtime/device/backend.h). Gradients are copied to the device unless they are there already, and
 * added on a stream. The average is copied to the host, or stays on the device. Streams and memory
 * are kept for the next sum.
 *
 * Usage: tps_device_sum_new() -> add() in order -> sync(), before the gradients are released ->
 * more of both -> average() -> free().
 *
 * Errors: RESOURCE_EXHAUSTED (no memory on the device), DEVICE_LOST; the sum must not be used any
 * more then. Thread: a sum one at a time; TpsDeviceSums any.
 */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

typedef struct TpsDeviceSums TpsDeviceSums; /* idle lanes of a device */
typedef struct TpsDeviceSum TpsDeviceSum;

/* Creates the sums of `device`, which is borrowed, without lanes. The caller owns the result. */
TpsDeviceSums *tps_device_sums_new (TpsDevice *device);
/* Borrowed for ever. */
TpsDevice *tps_device_sums_get_device (const TpsDeviceSums *sums);
/* All sums must have been freed. */
void tps_device_sums_free (TpsDeviceSums *sums);

/* A sum of gradients of `dtype` with `n_elems` elements each; nothing has been added. May block. */
TpsDeviceSum *tps_device_sum_new (TpsDeviceSums *sums, TpsDType dtype, gsize n_elems,
                                  GError **error);
void tps_device_sum_free (TpsDeviceSum *sum);

/* sum += weight * gradient, the first time sum = weight * gradient. Enqueues only; `gradient`, in
 * host memory, stays borrowed and must not change until sync(), average() or free(). */
void tps_device_sum_add (TpsDeviceSum *sum, gconstpointer gradient, gdouble weight);
/* The same for a gradient in the device's memory, which is not copied. */
void tps_device_sum_add_there (TpsDeviceSum *sum, gconstpointer gradient, gdouble weight);

/* Waits until all additions are complete. */
gboolean tps_device_sum_sync (TpsDeviceSum *sum, GError **error);

/* average = sum / divisor, in host memory, of the gradients' dtype. At least one gradient must have
 * been added. Waits for the result. */
gboolean tps_device_sum_average (TpsDeviceSum *sum, gpointer average, gdouble divisor,
                                 GError **error);
/* The same in the device's memory: a buffer that the caller owns; NULL = failed. */
TpsBuffer *tps_device_sum_average_there (TpsDeviceSum *sum, gdouble divisor, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDeviceSum, tps_device_sum_free)

G_END_DECLS
