/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Results of an operation on a device against those of the CPU. Each operation runs on a few
 * elements on both, and the results are compared, bit by bit where the bits are guaranteed. Then it
 * runs on the arrays that are measured. They repeat a short pattern, so their result repeats too,
 * and the device compares it with the CPU's; the same holds for updated states of optimizers. The
 * CPU computes the whole result where it does not repeat. Found ids and losses are compared on the
 * host. */

#pragma once

#include "bench/gpu_bundle/device_cases.h"

G_BEGIN_DECLS

/* The CPU's results of TPS_DEVICE_CHECK_ELEMS elements. */
typedef struct
{
  gfloat *floats; /* `a`, then `state`; owned */
  gdouble loss;
} TpsDeviceExpected;

/* Clearing after an error, or of zeros, is allowed. */
gboolean tps_device_expected_init (TpsDeviceExpected *expected, const TpsDeviceCase *entry,
                                   GError **error);
void tps_device_expected_clear (TpsDeviceExpected *expected);

/* Runs the operation on a few elements. Returns the number of results that differ; -1 with an
 * error. */
gssize tps_device_check_few (TpsDevice *device, const TpsDeviceCase *entry,
                             const TpsDeviceExpected *expected, GError **error);

/* Runs the operation once on `work`, whose arrays are new. Sets *is_wrong to whether its results
 * differ. Errors: those of the device. */
gboolean tps_device_check_all (const TpsDeviceWork *work, const TpsDeviceCase *entry,
                               const TpsDeviceExpected *expected, gboolean *is_wrong,
                               GError **error);

G_END_DECLS
