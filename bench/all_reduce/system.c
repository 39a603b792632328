/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/all_reduce/system.h"

#include <string.h>

#include "bench/process/python.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

#define PEER_SCRIPT "bench/peers/pytorch_all_reduce.py"

struct TpsAllReduceSystem
{
  TpsAllReduceKind kind;
  GPtrArray *children; /* of TpsChild */
  gchar *version;
};

static const struct
{
  const gchar *name;
  const gchar *role; /* the role of our program; NULL = none */
} kinds[TPS_ALL_REDUCE_N_KINDS] = {
  [TPS_ALL_REDUCE_PLACED] = { "in place", "placed" },
  [TPS_ALL_REDUCE_SHARED] = { "shared memory", "shared" },
  [TPS_ALL_REDUCE_TCP] = { "tcp", "tcp" },
  [TPS_ALL_REDUCE_PYTORCH] = { "pytorch", NULL },
  [TPS_ALL_REDUCE_MEMORY] = { "memory", "limit" },
};

const gchar *
tps_all_reduce_kind_name (TpsAllReduceKind kind)
{
  return kinds[kind].name;
}

/* -- processes -- */

static GStrv
make_argv (TpsAllReduceKind kind, guint rank, guint size, const gchar *store, GError **error)
{
  g_autoptr (GStrvBuilder) argv = g_strv_builder_new ();
  g_autofree gchar *found = kind == TPS_ALL_REDUCE_PYTORCH
                                ? tps_bench_find_file (PEER_SCRIPT, error)
                                : tps_bench_find_program ();
  g_autofree gchar *role_flag = g_strdup_printf ("--role=%s", kinds[kind].role);
  g_autofree gchar *rank_flag = g_strdup_printf ("--rank=%u", rank);
  g_autofree gchar *size_flag = g_strdup_printf ("--ranks=%u", size);
  g_autofree gchar *store_flag = g_strdup_printf ("--store=%s", store);

  if (found == NULL)
    return NULL;
  if (kind == TPS_ALL_REDUCE_PYTORCH)
    g_strv_builder_add_many (argv, tps_bench_find_python (), found, rank_flag, size_flag,
                             store_flag, NULL);
  else
    g_strv_builder_add_many (argv, found, role_flag, rank_flag, size_flag, store_flag, NULL);
  return g_strv_builder_end (argv);
}

static void
free_child (gpointer child)
{
  tps_child_free (child);
}

static gboolean
start_child (TpsAllReduceSystem *system, TpsSupervisor *supervisor, guint rank, guint size,
             const gchar *store, GError **error)
{
  g_auto (GStrv) argv = make_argv (system->kind, rank, size, store, error);
  g_autofree gchar *name = g_strdup_printf ("%s, rank %u", kinds[system->kind].name, rank);
  TpsChild *child;

  if (argv == NULL)
    return FALSE;
  child = tps_child_start (supervisor, name, argv, error);
  if (child == NULL)
    return FALSE;
  g_ptr_array_add (system->children, child);
  return TRUE;
}

/* Receives the first line of each rank, such as "torch 1.13.0". */
static gboolean
receive_versions (TpsAllReduceSystem *system, GError **error)
{
  for (guint i = 0; i < system->children->len; i++)
    {
      g_free (system->version);
      system->version = tps_child_receive_from_script (system->children->pdata[i], error);
      if (system->version == NULL)
        return FALSE;
    }
  return TRUE;
}

TpsAllReduceSystem *
tps_all_reduce_system_start (TpsSupervisor *supervisor, TpsAllReduceKind kind, guint size,
                             const gchar *store, GError **error)
{
  TpsAllReduceSystem *system = g_new0 (TpsAllReduceSystem, 1);
  guint n_children = kind == TPS_ALL_REDUCE_MEMORY ? 1 : size;
  gboolean ok = TRUE;

  system->kind = kind;
  system->children = g_ptr_array_new_with_free_func (free_child);
  for (guint rank = 0; ok && rank < n_children; rank++)
    ok = start_child (system, supervisor, rank, size, store, error);
  if (ok && (kind != TPS_ALL_REDUCE_PYTORCH || receive_versions (system, error)))
    return system;
  tps_all_reduce_system_free (system);
  return NULL;
}

void
tps_all_reduce_system_free (TpsAllReduceSystem *system)
{
  g_ptr_array_unref (system->children);
  g_free (system->version);
  g_free (system);
}

TpsAllReduceKind
tps_all_reduce_system_get_kind (const TpsAllReduceSystem *system)
{
  return system->kind;
}

const gchar *
tps_all_reduce_system_get_version (const TpsAllReduceSystem *system)
{
  return system->version;
}

/* -- orders -- */

static gdouble
parse_answer (const TpsAllReduceSystem *system, const gchar *answer, GError **error)
{
  if (g_str_has_prefix (answer, "ok "))
    return g_ascii_strtod (answer + strlen ("ok "), NULL);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s: %.300s", kinds[system->kind].name,
               answer);
  return -1;
}

gdouble
tps_all_reduce_system_run (TpsAllReduceSystem *system, gsize n_bytes, guint n_calls, GError **error)
{
  g_autofree gchar *order = g_strdup_printf ("%" G_GSIZE_FORMAT " %u", n_bytes, n_calls);
  gdouble slowest = 0;

  for (guint i = 0; i < system->children->len; i++)
    if (!tps_child_send (system->children->pdata[i], order, error))
      return -1;
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *answer = tps_child_receive (system->children->pdata[i], error);
      gdouble seconds = answer == NULL ? -1 : parse_answer (system, answer, error);

      if (seconds < 0)
        return -1;
      slowest = MAX (slowest, seconds);
    }
  return slowest / n_calls;
}
