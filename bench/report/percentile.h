/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Percentiles for all reports. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Interpolates linearly between the two nearest values, as numpy.percentile does. `values` are of
 * gdouble, in any order; NAN if there are none. */
gdouble tps_percentile (const GArray *values, gdouble percent);

G_END_DECLS
