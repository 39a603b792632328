/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Steps of tables that devices work on. */

#pragma once

#include "runtime/server/tables/device/device_rows.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDeviceBags bags;
  const gfloat *gradient; /* of the pooled output, [n_bags, dim], in the host's memory; borrowed */
} TpsDeviceGradient;

/* One step for each table that is named, with the bits of tps_table_step_run(): contributions to a row are added in the order
 * of the list. All sums are worked out before the first row changes, so that what can fail fails before; only a device that
 * is lost while it changes rows leaves other tables with their step taken. Blocks until all is done. Errors: DEVICE_LOST,
 * RESOURCE_EXHAUSTED. */
gboolean tps_device_steps_run (const TpsDeviceGradient *gradients, guint n_gradients,
                               GError **error);

G_END_DECLS
