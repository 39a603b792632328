/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Results of an operation on a device against those of the CPU. Each operation runs on a few
 * elements on both, and the results are compared, bit by bit where the bits are guaranteed. Then it
 * runs on the arrays of the measurement. These arrays repeat a short pattern. In most cases the
 * result and the updated state of an optimizer therefore repeat the CPU's results of a few
 * elements, with which the device compares them. In the other cases the CPU computes the whole
 * result. Found ids and losses are compared on the host. */

#pragma once

#include "bench/gpu_bundle/device_cases.h"

G_BEGIN_DECLS

/* The CPU's results of TPS_DEVICE_CHECK_ELEMS elements. */
typedef struct
{
  gfloat *floats; /* `a`, then `state`; owned */
  gdouble loss;
} TpsDeviceExpected;

/* Runs the operation on the CPU. tps_device_expected_clear() may also be called after an error, and
 * for a struct of zeros. */
gboolean tps_device_expected_init (TpsDeviceExpected *expected, const TpsDeviceCase *entry,
                                   GError **error);
void tps_device_expected_clear (TpsDeviceExpected *expected);

/* Runs the operation on TPS_DEVICE_CHECK_ELEMS elements. Returns the number of results that differ;
 * -1 with an error. */
gssize tps_device_check_few (TpsDevice *device, const TpsDeviceCase *entry,
                             const TpsDeviceExpected *expected, GError **error);

/* Runs the operation once on `work`, whose arrays no operation may have changed. Sets *is_wrong to
 * TRUE if the results differ, otherwise to FALSE. Errors: those of the device. */
gboolean tps_device_check_all (const TpsDeviceWork *work, const TpsDeviceCase *entry,
                               const TpsDeviceExpected *expected, gboolean *is_wrong,
                               GError **error);

G_END_DECLS
