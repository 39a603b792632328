/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/process/flags.h"
#include "bench/world/world.h"
#include "runtime/base/error.h"

#define DEFAULT_PORT 29500

/* Where launchers of fleets say who a process is. The first that is set wins. */
static const gchar *const rank_variables[] = { "RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                               "PMI_RANK", "SLURM_PROCID",         NULL };
static const gchar *const world_size_variables[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                                     "PMI_SIZE", "SLURM_NTASKS", NULL };
static const gchar *const local_rank_variables[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                                     "MPI_LOCALRANKID", "SLURM_LOCALID", NULL };

void
tps_world_add_flags (GOptionContext *context, TpsWorld *world)
{
  const GOptionEntry entries[] = {
    { "master-addr", 0, 0, G_OPTION_ARG_STRING, &world->master_addr,
      "host of the master (127.0.0.1)", "HOST" },
    { "master-port", 0, 0, G_OPTION_ARG_INT, &world->master_port,
      "port of the master (a free one; 29500 with --rank)", "PORT" },
    { "rank", 0, 0, G_OPTION_ARG_INT, &world->rank,
      "be this one role of the world instead of launching all (RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, "
      "PMI_RANK, SLURM_PROCID)",
      "N" },
    { "world-size", 0, 0, G_OPTION_ARG_INT, &world->world_size,
      "checked against trainers, servers and one master (WORLD_SIZE, OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_NTASKS)",
      "N" },
    { "transport", 0, 0, G_OPTION_ARG_STRING, &world->transport,
      "unix or tcp (unix; tcp with --rank)", "KIND" },
    { "no-shared-memory", 0, 0, G_OPTION_ARG_NONE, &world->no_shared_memory,
      "large tensors through the Unix sockets too, as through TCP", NULL },
    { "rpc-timeout", 0, 0, G_OPTION_ARG_INT, &world->rpc_timeout,
      "seconds that a call waits for others (30)", "S" },
    { "startup-timeout", 0, 0, G_OPTION_ARG_INT, &world->startup_timeout,
      "seconds that the roles wait for each other at the start (60)", "S" },
    { "socket-dir", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &world->socket_dir, NULL,
      NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };

  g_option_context_add_main_entries (context, entries, NULL);
}

static gboolean
int_from_environment (const gchar *const *names, gint64 max, gint *value, GError **error)
{
  gint64 number;

  while (*names != NULL && g_getenv (*names) == NULL)
    names++;
  if (*names == NULL || *value >= 0)
    return TRUE;
  if (!g_ascii_string_to_signed (g_getenv (*names), 10, 0, max, &number, NULL))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "%s=%s in the environment: expected a number from 0 to %" G_GINT64_FORMAT,
                   *names, g_getenv (*names), max);
      return FALSE;
    }
  *value = (gint) number;
  return TRUE;
}

/* A world size of one says that nobody launched a world: every shell under such a launcher has
 * these variables. */
gboolean
tps_world_read_environment (TpsWorld *world, GError **error)
{
  gint world_size = -1, rank = -1;
  const gchar *const port_variables[] = { "MASTER_PORT", NULL };

  if (world->rank < 0)
    {
      if (!int_from_environment (world_size_variables, G_MAXINT, &world_size, error)
          || !int_from_environment (rank_variables, G_MAXINT, &rank, error))
        return FALSE;
      if (world_size <= 1 || rank < 0)
        return TRUE;
      world->rank = rank;
      if (!int_from_environment (local_rank_variables, G_MAXINT, &world->local_rank, error))
        return FALSE;
      if (world->world_size < 0)
        world->world_size = world_size;
    }
  if (world->master_addr == NULL)
    world->master_addr = g_strdup (g_getenv ("MASTER_ADDR"));
  return int_from_environment (port_variables, 65535, &world->master_port, error);
}

static gboolean
check_size (const TpsWorld *world, GError **error)
{
  guint size = tps_world_get_size (world);

  if (world->world_size >= 0 && (guint) world->world_size != size)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "--world-size=%d: %u trainers, %u servers and one master make %u",
                   world->world_size, world->n_trainers, world->n_servers, size);
      return FALSE;
    }
  return world->rank < 0
         || tps_flags_check_number ("rank", world->rank, 0, (gint64) size - 1, error);
}

gboolean
tps_world_finish_flags (TpsWorld *world, GError **error)
{
  static const gchar *const transports[] = { "unix", "tcp", NULL };

  tps_flags_default_to (&world->master_addr, "127.0.0.1");
  tps_flags_default_to (&world->transport,
                        world->rank >= 0 && world->socket_dir == NULL ? "tcp" : "unix");
  if (world->master_port < 0)
    world->master_port = world->rank >= 0 ? DEFAULT_PORT : 0;
  return tps_flags_check_number ("master-port", world->master_port, 0, 65535, error)
         && tps_flags_check_number ("rpc-timeout", world->rpc_timeout, 1, 86400, error)
         && tps_flags_check_number ("startup-timeout", world->startup_timeout, 1, 86400, error)
         && tps_flags_check_word ("transport", world->transport, transports, error)
         && check_size (world, error);
}

const gchar *
tps_world_get_transport_title (const TpsWorld *world)
{
  if (g_str_equal (world->transport, "tcp"))
    return "TCP";
  return world->no_shared_memory ? "Unix sockets" : "Unix sockets and shared memory";
}

void
tps_world_describe (const TpsWorld *world, GPtrArray *lines)
{
  tps_flags_add_text (lines, "master-addr", world->master_addr);
  tps_flags_add_number (lines, "master-port", world->master_port);
  tps_flags_add_text (lines, "transport", world->transport);
  tps_flags_add_number (lines, "no-shared-memory", world->no_shared_memory);
  tps_flags_add_number (lines, "rpc-timeout", world->rpc_timeout);
  tps_flags_add_number (lines, "startup-timeout", world->startup_timeout);
}
