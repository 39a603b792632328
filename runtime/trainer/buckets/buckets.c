/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/buckets/buckets.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"

/* The open bucket, which takes the next dense parameters, and the closed buckets. */
typedef struct
{
  TpsBucketLayout *layout;
  GArray *closed; /* of TpsBucket */
  GArray *open;   /* of guint, parameter indices */
  gsize open_elems;
} LayoutBuilder;

static gboolean
check_mib (gdouble mib, const gchar *what, GError **error)
{
  /* 2^30 MiB = 1 PiB */
  if (isfinite (mib) && mib >= 0 && mib <= 1073741824.0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s is %g, expected a size in MiB from 0 to 2^30", what, mib);
}

static void
close_bucket (LayoutBuilder *builder, const guint *parameters, guint n_parameters, gsize n_elems,
              gboolean is_sparse)
{
  TpsBucket bucket = {
    .is_sparse = is_sparse,
    .n_parameters = n_parameters,
    .parameters = g_memdup2 (parameters, n_parameters * sizeof *parameters),
    .n_elems = n_elems,
  };

  g_array_append_val (builder->closed, bucket);
}

static void
close_open_bucket (LayoutBuilder *builder)
{
  if (builder->open->len == 0)
    return;
  close_bucket (builder, (const guint *) (gpointer) builder->open->data, builder->open->len,
                builder->open_elems, FALSE);
  g_array_set_size (builder->open, 0);
  builder->open_elems = 0;
}

static void
add_dense (LayoutBuilder *builder, guint index, gsize n_elems)
{
  builder->layout->places[index].offset = builder->open_elems;
  g_array_append_val (builder->open, index);
  builder->open_elems += n_elems;
}

/* Orders buckets by their completion in the backward pass. Parameters are added in reverse order,
 * so a bucket is complete earlier if its last parameter has a larger index. */
static gint
compare_completion (gconstpointer a, gconstpointer b)
{
  const TpsBucket *left = a;
  const TpsBucket *right = b;
  guint left_last = left->parameters[left->n_parameters - 1];
  guint right_last = right->parameters[right->n_parameters - 1];

  return left_last > right_last ? -1 : left_last < right_last ? 1 : 0;
}

static void
number_buckets (TpsBucketLayout *layout)
{
  for (guint b = 0; b < layout->n_buckets; b++)
    for (guint i = 0; i < layout->buckets[b].n_parameters; i++)
      layout->places[layout->buckets[b].parameters[i]].bucket = b;
}

gboolean
tps_bucket_layout_init (TpsBucketLayout *layout, const TpsParameter *parameters, guint n_parameters,
                        gdouble first_mib, gdouble cap_mib, GError **error)
{
  LayoutBuilder builder = { .layout = layout };
  gdouble limit_bytes = first_mib * 1048576.0;

  memset (layout, 0, sizeof *layout);
  if (!check_mib (first_mib, "first_bucket_mib", error)
      || !check_mib (cap_mib, "bucket_cap_mib", error))
    return FALSE;
  if (n_parameters == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "the model has no parameters");

  layout->n_parameters = n_parameters;
  layout->places = g_new0 (TpsBucketPlace, n_parameters);
  builder.closed = g_array_new (FALSE, FALSE, sizeof (TpsBucket));
  builder.open = g_array_new (FALSE, FALSE, sizeof (guint));
  for (guint i = n_parameters; i-- > 0;)
    {
      gsize n_elems = (gsize) tps_shape_n_elems (&parameters[i].shape);

      if (parameters[i].is_sparse)
        {
          close_bucket (&builder, &i, 1, n_elems, TRUE);
          continue;
        }
      add_dense (&builder, i, n_elems);
      if ((gdouble) (builder.open_elems * sizeof (gfloat)) >= limit_bytes)
        {
          close_open_bucket (&builder);
          limit_bytes = cap_mib * 1048576.0;
        }
    }
  close_open_bucket (&builder);

  g_array_sort (builder.closed, compare_completion);
  layout->n_buckets = builder.closed->len;
  layout->buckets = (TpsBucket *) (gpointer) g_array_free (builder.closed, FALSE);
  g_array_free (builder.open, TRUE);
  number_buckets (layout);
  return TRUE;
}

void
tps_bucket_layout_clear (TpsBucketLayout *layout)
{
  for (guint i = 0; i < layout->n_buckets; i++)
    g_free (layout->buckets[i].parameters);
  g_free (layout->buckets);
  g_free (layout->places);
  memset (layout, 0, sizeof *layout);
}

gchar *
tps_bucket_layout_to_string (const TpsBucketLayout *layout, const TpsParameter *parameters)
{
  GString *text = g_string_new (NULL);

  for (guint b = 0; b < layout->n_buckets; b++)
    {
      const TpsBucket *bucket = &layout->buckets[b];

      g_string_append_printf (text, "bucket %u: %s, %" G_GSIZE_FORMAT " elements\n", b,
                              bucket->is_sparse ? "sparse" : "dense", bucket->n_elems);
      for (guint i = 0; i < bucket->n_parameters; i++)
        {
          const TpsParameter *parameter = &parameters[bucket->parameters[i]];
          g_autofree gchar *shape = tps_shape_to_string (&parameter->shape);

          g_string_append_printf (text, "  %s %s\n", parameter->name, shape);
        }
    }
  return g_string_free (text, FALSE);
}
