/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Percentiles as every report shows them. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* As numpy.percentile: linear between the two nearest. `values` are of gdouble, in any order; NAN
 * where there are none. */
gdouble tps_percentile (const GArray *values, gdouble percent);

G_END_DECLS
