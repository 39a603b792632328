/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Which parameters travel together.
 *
 * Dense parameters are taken in reverse order and put into a bucket until it has reached its size
 * (so that one may exceed it): the first one closes early, so that communication starts early. A
 * sparse parameter has a bucket of its own. Buckets are numbered in the order in which the backward
 * pass completes them. The layout holds from step 0 on and never changes (PyTorch rebuilds its
 * after the first step), so a bucket's number keeps its meaning.
 *
 * Within a bucket elements are packed without gaps in the order in which the parameters were taken:
 * that of the backward pass.
 */

#pragma once

#include "runtime/nn/model.h"

G_BEGIN_DECLS

typedef struct
{
  gboolean is_sparse;
  guint n_parameters;
  guint *parameters; /* their indices, in packing order */
  gsize n_elems;     /* of all of them; of a sparse one: of the whole matrix */
} TpsBucket;

/* Where one parameter lies. */
typedef struct
{
  guint bucket;
  gsize offset; /* in elements from the bucket's start */
} TpsBucketPlace;

typedef struct
{
  guint n_buckets;
  TpsBucket *buckets;
  guint n_parameters;
  TpsBucketPlace *places; /* by parameter */
} TpsBucketLayout;

/* `first_mib` and `cap_mib`: sizes of the first dense bucket and of the others; 0 gives each
 * parameter its own. Errors: TPS_ERROR_INVALID_ARGUMENT (a size that is negative or not finite; a
 * model without parameters). */
gboolean tps_bucket_layout_init (TpsBucketLayout *layout, const TpsParameter *parameters,
                                 guint n_parameters, gdouble first_mib, gdouble cap_mib,
                                 GError **error);
void tps_bucket_layout_clear (TpsBucketLayout *layout);

/* Bytes on the wire of a bucket's gradient if it is dense. */
static inline gsize
tps_bucket_n_bytes (const TpsBucket *bucket)
{
  return bucket->n_elems * sizeof (gfloat);
}

/* A line for each bucket and parameter, the same on two processes exactly if their layouts fit;
 * owned. */
gchar *tps_bucket_layout_to_string (const TpsBucketLayout *layout, const TpsParameter *parameters);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBucketLayout, tps_bucket_layout_clear)

G_END_DECLS
