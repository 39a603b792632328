/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/all_reduce/rank.h"

#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "plugin/client/remote_store.h"
#include "runtime/trainer/ports/process_group.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define TIMEOUT_NS (G_GINT64_CONSTANT (60) * 1000000000)

/* A rank and its running call, which on_done() ends on a thread of the group. */
typedef struct
{
  const TpsAllReduceRank *options;
  TpsProcessGroup *group;
  sem_t done;
  GError *error; /* of the last call */
} Rank;

static void
on_done (gpointer user_data, const GError *error)
{
  Rank *rank = user_data;

  if (error != NULL)
    rank->error = g_error_copy (error);
  sem_post (&rank->done);
}

static gboolean
sum (Rank *rank, gfloat *data, gsize n_elems, GError **error)
{
  rank->group->ops->all_reduce_f32 (rank->group, data, n_elems, on_done, rank);
  while (sem_wait (&rank->done) != 0)
    continue;
  if (rank->error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&rank->error));
  return FALSE;
}

/* Times `n_calls` sums of zeros: zeros stay zeros in repeated sums. The ranks first meet in a sum
 * of one element. */
static gint64
run_timed (Rank *rank, gfloat *data, gsize n_elems, guint n_calls, GError **error)
{
  gfloat meeting = 0;
  gint64 start_ns;

  memset (data, 0, n_elems * sizeof *data);
  if (!sum (rank, &meeting, 1, error))
    return -1;
  start_ns = tps_clock_now_ns ();
  for (guint i = 0; i < n_calls; i++)
    if (!sum (rank, data, n_elems, error))
      return -1;
  return tps_clock_now_ns () - start_ns;
}

/* Returns the memory of the data. The group has no memory for small data, which it copies. */
static TpsBuffer *
get_memory (Rank *rank, gsize n_bytes)
{
  TpsBuffer *placed = NULL;

  if (g_str_equal (rank->options->role, "placed"))
    placed = rank->group->ops->get_memory (rank->group, n_bytes, NULL);
  return placed != NULL ? placed : tps_buffer_new (n_bytes);
}

static gint64
run (gpointer user_data, gsize n_elems, guint n_calls, GError **error)
{
  Rank *rank = user_data;
  g_autoptr (TpsBuffer) buffer = get_memory (rank, n_elems * sizeof (gfloat));
  gfloat *data = (gfloat *) (gpointer) tps_buffer_get_data (buffer);

  tps_all_reduce_fill (data, n_elems, rank->options->rank);
  if (!sum (rank, data, n_elems, error)
      || !tps_all_reduce_check (data, n_elems, rank->options->size, error))
    return -1;
  return run_timed (rank, data, n_elems, n_calls, error);
}

static TpsProcessGroup *
join (const TpsAllReduceRank *options, GError **error)
{
  g_autofree gchar *prefix = g_strconcat (options->role, "/", NULL);
  TpsRemoteStoreOptions store_options = { .address = options->store, .timeout_ns = TIMEOUT_NS };
  TpsStore *store = tps_remote_store_new (&store_options, error);
  TpsProcessGroupOptions group_options = {
    .rank = options->rank,
    .size = options->size,
    .store = store,
    .prefix = prefix,
    .timeout_ns = TIMEOUT_NS,
    .no_shared_memory = g_str_equal (options->role, "tcp"),
  };
  TpsProcessGroup *group;

  if (store == NULL)
    return NULL;
  group = tps_process_group_new ("gloo", &group_options, error);
  store->ops->free (store);
  return group;
}

gint
tps_all_reduce_run_rank (const TpsAllReduceRank *options)
{
  g_autoptr (GError) error = NULL;
  Rank rank = { .options = options };
  gint status;

  rank.group = join (options, &error);
  if (rank.group == NULL)
    {
      fprintf (stderr, "all_reduce: rank %u: %s\n", options->rank, error->message);
      return 1;
    }
  sem_init (&rank.done, 0, 0);
  status = tps_all_reduce_serve (run, &rank);
  rank.group->ops->abort (rank.group); /* the other ranks may have ended already */
  rank.group->ops->free (rank.group);
  sem_destroy (&rank.done);
  return status;
}
