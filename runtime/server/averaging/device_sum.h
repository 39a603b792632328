/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of dense gradients in a device's memory, with the bits of those in the host's
 * (runtime/device/backend.h): gradients are copied there, unless that is where they are, and added
 * on a stream; the average comes back or stays. Streams and memory are kept for the next sum.
 *
 * Way of use: tps_device_sum_new() -> add() in order -> sync(), when the gradients are to be let go
 * of -> more of both -> average() -> free().
 *
 * Errors: RESOURCE_EXHAUSTED (no memory there), DEVICE_LOST; the sum is of no use then.
 * Thread: a sum one at a time; TpsDeviceSums any.
 */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

typedef struct TpsDeviceSums TpsDeviceSums; /* what is kept */
typedef struct TpsDeviceSum TpsDeviceSum;

TpsDeviceSums *tps_device_sums_new (TpsDevice *device);
/* Borrowed for ever. */
TpsDevice *tps_device_sums_get_device (const TpsDeviceSums *sums);
/* All sums are freed by then. */
void tps_device_sums_free (TpsDeviceSums *sums);

/* A sum of gradients of `dtype` with `n_elems` elements each; nothing has been added. May block. */
TpsDeviceSum *tps_device_sum_new (TpsDeviceSums *sums, TpsDType dtype, gsize n_elems,
                                  GError **error);
void tps_device_sum_free (TpsDeviceSum *sum);

/* sum += weight * gradient, the first time sum = weight * gradient. Enqueues; `gradient`, in host
 * memory, stays borrowed and unchanged until sync(), average() or free(). */
void tps_device_sum_add (TpsDeviceSum *sum, gconstpointer gradient, gdouble weight);
/* The same of a gradient in the device's memory, which is not copied. */
void tps_device_sum_add_there (TpsDeviceSum *sum, gconstpointer gradient, gdouble weight);

/* Waits until all is added. */
gboolean tps_device_sum_sync (TpsDeviceSum *sum, GError **error);

/* average = sum / divisor, in host memory, of the gradients' dtype; at least one has been added.
 * Waits until it is there. */
gboolean tps_device_sum_average (TpsDeviceSum *sum, gpointer average, gdouble divisor,
                                 GError **error);
/* The same in the device's memory: a buffer of the caller's; NULL = failed. */
TpsBuffer *tps_device_sum_average_there (TpsDeviceSum *sum, gdouble divisor, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDeviceSum, tps_device_sum_free)

G_END_DECLS
