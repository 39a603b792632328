/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/role.h"

#include <stdio.h>
#include <string.h>

#include "bench/dlrm/local_tables.h"
#include "bench/dlrm/training.h"
#include "plugin/client/remote_store.h"
#include "plugin/client/remote_tables.h"
#include "runtime/trainer/dense/blas.h"

#define TIMEOUT_NS (G_GINT64_CONSTANT (120) * 1000000000)

typedef struct
{
  TpsTableClient *tables;
  TpsProcessGroup *group;
  TpsDlrmTraining training;
} Role;

static TpsTableClient *
connect_tables (const TpsDlrmOptions *options, GError **error)
{
  g_auto (GStrv) addresses = g_strsplit (options->addresses, ",", -1);
  TpsRemoteTablesOptions remote = { .addresses = (const gchar *const *) addresses,
                                    .n_addresses = g_strv_length (addresses) };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&remote, error);

  if (tables == NULL
      || !tps_remote_tables_discover (tables, tps_clock_now_ns () + TIMEOUT_NS, error))
    return NULL;
  return tps_remote_tables_as_client (g_steal_pointer (&tables));
}

/* Joins the group of trainers through the rendezvous service of the first server. */
static TpsProcessGroup *
join_group (const TpsDlrmOptions *options, gboolean is_single, GError **error)
{
  g_auto (GStrv) addresses = g_strsplit (is_single ? "" : options->addresses, ",", -1);
  TpsProcessGroupOptions group = { .rank = is_single ? 0 : (guint) options->rank,
                                   .size = is_single ? 1 : (guint) options->n_trainers,
                                   .prefix = "dlrm/",
                                   .timeout_ns = TIMEOUT_NS };
  TpsProcessGroup *joined;

  if (group.size > 1)
    {
      TpsRemoteStoreOptions store = { .address = addresses[0], .timeout_ns = TIMEOUT_NS };

      group.store = tps_remote_store_new (&store, error);
      if (group.store == NULL)
        return NULL;
    }
  joined = tps_process_group_new ("gloo", &group, error);
  if (group.store != NULL)
    group.store->ops->free (group.store);
  return joined;
}

static gboolean
start (Role *role, const TpsDlrmOptions *options, GError **error)
{
  gboolean is_single = g_str_equal (options->role, "local");

  tps_blas_set_num_threads ((guint) options->n_threads);
  role->tables = is_single ? tps_dlrm_local_tables_new (options, error)
                           : connect_tables (options, error);
  role->group = role->tables != NULL ? join_group (options, is_single, error) : NULL;
  return role->group != NULL
         && tps_dlrm_training_init (&role->training, options, role->tables, role->group, is_single,
                                    error);
}

/* Aborts the collectives first. Other trainers may no longer take part in them, and the collectives
 * use memory that is freed next. */
static void
stop (Role *role)
{
  if (role->group != NULL)
    {
      role->group->ops->abort (role->group);
      role->group->ops->free (role->group);
    }
  if (role->training.options != NULL)
    tps_dlrm_training_clear (&role->training);
  if (role->tables != NULL)
    role->tables->ops->free (role->tables);
}

/* -- orders -- */

static gboolean
obey (Role *role, const gchar *order, gdouble *seconds, GError **error)
{
  gchar *at;
  guint64 first = g_ascii_strtoull (order, &at, 10);
  guint n_steps = (guint) g_ascii_strtoull (at, &at, 10);
  g_auto (TpsDlrmPass) pass = { 0 };

  tps_dlrm_pass_init (&pass);
  return tps_dlrm_training_run (&role->training, first, n_steps, &pass, seconds, error)
         && tps_dlrm_pass_write (&pass, at + strspn (at, " "), error);
}

static gint
serve (Role *role)
{
  gchar line[4096];

  printf ("ready\n");
  fflush (stdout);
  while (fgets (line, sizeof line, stdin) != NULL)
    {
      g_autoptr (GError) error = NULL;
      gdouble seconds;

      g_strchomp (line);
      if (obey (role, line, &seconds, &error))
        printf ("ok %.9f\n", seconds);
      else
        printf ("error %s\n", error->message);
      fflush (stdout);
      if (error != NULL)
        return 1;
    }
  return 0;
}

gint
tps_dlrm_run_role (const TpsDlrmOptions *options)
{
  g_autoptr (GError) error = NULL;
  Role role = { 0 };
  gint status;

  if (start (&role, options, &error))
    status = serve (&role);
  else
    {
      printf ("error %s\n", error->message);
      status = 1;
    }
  stop (&role);
  return status;
}
