/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/pass/partition.h"

#include <stdlib.h>

typedef struct
{
  gint64 n_bytes;
  guint bucket;
} Load;

/* Orders buckets by descending size, and buckets of equal size by their numbers. */
static int
compare_loads (const void *a, const void *b)
{
  const Load *left = a;
  const Load *right = b;

  if (left->n_bytes != right->n_bytes)
    return left->n_bytes > right->n_bytes ? -1 : 1;
  return left->bucket < right->bucket ? -1 : 1;
}

static guint
find_least_loaded (const gint64 *totals, guint n_servers)
{
  guint least = 0;

  for (guint i = 1; i < n_servers; i++)
    if (totals[i] < totals[least])
      least = i;
  return least;
}

void
tps_partition_buckets (const gint64 *n_bytes, guint n_buckets, guint n_servers, guint *owners)
{
  g_autofree Load *loads = g_new (Load, n_buckets);
  g_autofree gint64 *totals = g_new0 (gint64, n_servers);

  if (n_buckets == 0)
    return;
  for (guint i = 0; i < n_buckets; i++)
    loads[i] = (Load) { .n_bytes = n_bytes[i], .bucket = i };
  qsort (loads, n_buckets, sizeof *loads, compare_loads);
  for (guint i = 0; i < n_buckets; i++)
    {
      guint server = find_least_loaded (totals, n_servers);

      owners[loads[i].bucket] = server;
      totals[server] += loads[i].n_bytes;
    }
}

guint
tps_partition_find_server (guint trainer, guint n_trainers, guint n_servers)
{
  return (guint) ((guint64) trainer * n_servers / n_trainers);
}

/* Returns the first trainer t with floor (t * n_servers / n_trainers) >= server. */
static guint
first_trainer (guint server, guint n_trainers, guint n_servers)
{
  return (guint) (((guint64) server * n_trainers + n_servers - 1) / n_servers);
}

void
tps_partition_get_trainers (guint server, guint n_trainers, guint n_servers, guint *first, guint *n)
{
  *first = first_trainer (server, n_trainers, n_servers);
  *n = first_trainer (server + 1, n_trainers, n_servers) - *first;
}
