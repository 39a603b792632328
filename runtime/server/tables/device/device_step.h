/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Steps of tables on devices. */

#pragma once

#include "runtime/server/tables/device/device_rows.h"

typedef struct
{
  TpsDeviceBags bags;
  /* Of the pooled output, [n_bags, dim], in the host's memory; borrowed. */
  gconstpointer gradient;
  /* Of the gradient. It may differ from FLOAT32 only if the call has a single gradient, and each
   * index is a bag. */
  TpsDType dtype;
  gboolean is_done; /* out: the table has taken the step */
} TpsDeviceGradient;

/* Takes the step of command `lsn` for each table that the gradients name, with the bits of
 * tps_table_step_run(). All sums are computed before the first row changes, so only a device lost
 * in between leaves some tables without their step: see `is_done`. One step of a table at a time.
 * Blocks. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_device_steps_run (TpsDeviceGradient *gradients, guint n_gradients, gint64 lsn,
                               GError **error);
