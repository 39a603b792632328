/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bags of a table in a training step, and arrays with one vector for each bag. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The bags of a table in a step, borrowed. Bag b has the ids [offsets[b], offsets[b + 1]); the last
 * bag ends at n_ids. */
typedef struct
{
  const gint64 *ids; /* [n_ids], at least 0 */
  gsize n_ids;
  const gint64 *offsets; /* [n_bags], ascending from 0 to at most n_ids */
  gsize n_bags;
} TpsStepBags;

/* One vector for each bag, in a larger array, borrowed: vector b begins at values + b * stride. */
typedef struct
{
  gfloat *values;
  gsize stride; /* floats from one vector to the next, at least the dimension */
} TpsStepVectors;

G_END_DECLS
