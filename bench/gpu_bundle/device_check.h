/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Comparison of the results of a device with those of the CPU. First, both run the operation on a
 * few elements. The results must be equal, bit by bit where the bits are guaranteed. Then the
 * device runs the operation on the arrays of the measurement, which repeat a short pattern. In most
 * cases the result and the updated state of an optimizer therefore repeat the results of the few
 * elements, and the device compares them. In the other cases the CPU computes the whole result.
 * Found ids and losses are compared on the host. */

#pragma once

#include "bench/gpu_bundle/device_cases.h"

G_BEGIN_DECLS

/* The results of the CPU for TPS_DEVICE_CHECK_ELEMS elements. */
typedef struct
{
  gfloat *floats; /* `a`, then `state`; owned */
  gdouble loss;
} TpsDeviceExpected;

/* Runs the operation on the CPU. Errors: RESOURCE_EXHAUSTED, and those of the device "cpu".
 * tps_device_expected_clear() may also be called after an error, and for a struct of zeros. */
gboolean tps_device_expected_init (TpsDeviceExpected *expected, const TpsDeviceCase *entry,
                                   GError **error);
void tps_device_expected_clear (TpsDeviceExpected *expected);

/* Runs the operation on TPS_DEVICE_CHECK_ELEMS elements. Returns the number of results that differ;
 * -1 with an error of the device. Blocks. */
gssize tps_device_check_few (TpsDevice *device, const TpsDeviceCase *entry,
                             const TpsDeviceExpected *expected, GError **error);

/* Runs the operation once on `work`, whose arrays must be new. Sets `*is_wrong` to TRUE if the
 * results differ, otherwise to FALSE. Blocks. Errors: those of the device; RESOURCE_EXHAUSTED. */
gboolean tps_device_check_all (const TpsDeviceWork *work, const TpsDeviceCase *entry,
                               const TpsDeviceExpected *expected, gboolean *is_wrong,
                               GError **error);

G_END_DECLS
