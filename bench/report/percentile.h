/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Percentiles for all reports. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns a percentile (`percent` is 0 to 100) of `values`, an array of gdouble in any order.
 * Interpolates linearly between the two nearest values, as numpy.percentile does. Returns NAN if
 * there are no values. Thread: any. */
gdouble tps_percentile (const GArray *values, gdouble percent);

G_END_DECLS
