/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/world.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/error.h"

#define DEFAULT_PORT 29500
#define DEFAULT_RPC_TIMEOUT 30

void
tps_world_init (TpsWorld *world, const gchar *program, const gchar *server_name)
{
  *world = (TpsWorld) { .program = program,
                        .server_name = server_name,
                        .local_rank = TPS_FLAGS_NOT_GIVEN };
}

guint
tps_world_get_size (const TpsWorld *world)
{
  return world->n_trainers + world->n_servers + 1;
}

gboolean
tps_world_is_role (const TpsWorld *world)
{
  return world->rank >= 0 && tps_world_get_kind (world, (guint) world->rank) != TPS_WORLD_MASTER;
}

guint
tps_world_get_given_rank (const TpsWorld *world)
{
  guint rank = (guint) MAX (world->rank, 0);

  return g_str_equal (world->master_rank, "first") ? (rank + 1) % tps_world_get_size (world) : rank;
}

TpsWorldKind
tps_world_get_kind (const TpsWorld *world, guint rank)
{
  if (rank < world->n_trainers)
    return TPS_WORLD_TRAINER;
  return rank + 1 < tps_world_get_size (world) ? TPS_WORLD_SERVER : TPS_WORLD_MASTER;
}

guint
tps_world_get_local_rank (const TpsWorld *world)
{
  return (guint) MAX (world->local_rank >= 0 ? world->local_rank : world->rank, 0);
}

guint
tps_world_get_number (const TpsWorld *world, guint rank)
{
  return rank < world->n_trainers ? rank : rank - world->n_trainers;
}

gchar *
tps_world_get_name (const TpsWorld *world, guint rank)
{
  switch (tps_world_get_kind (world, rank))
    {
    case TPS_WORLD_TRAINER:
      return g_strdup_printf ("trainer%u", rank);
    case TPS_WORLD_SERVER:
      return g_strdup_printf ("%s%u", world->server_name,
                              world->counts_servers ? tps_world_get_number (world, rank) : rank);
    default:
      return g_strdup ("master");
    }
}

gchar *
tps_world_join_address (const gchar *host, guint port)
{
  return g_strdup_printf (strchr (host, ':') != NULL ? "[%s]:%u" : "%s:%u", host, port);
}

gchar *
tps_world_get_master (const TpsWorld *world)
{
  return tps_world_join_address (world->master_addr, (guint) world->master_port);
}

gchar *
tps_world_get_role_key (guint rank)
{
  return g_strdup_printf ("world/role/%u", rank);
}

gchar *
tps_world_get_welcome_key (guint rank)
{
  return g_strdup_printf ("world/welcome/%u", rank);
}

gchar *
tps_world_get_stopped_key (guint rank)
{
  return g_strdup_printf ("world/stopped/%u", rank);
}

/* -- flags -- */

/* Variables in which launchers of fleets pass the rank. The first one that is set is used. */
static const gchar *const rank_variables[] = { "RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                               "PMI_RANK", "SLURM_PROCID",         NULL };
static const gchar *const world_size_variables[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                                     "PMI_SIZE", "SLURM_NTASKS", NULL };
static const gchar *const local_rank_variables[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                                     "MPI_LOCALRANKID", "SLURM_LOCALID", NULL };

#define FIELD(name) G_STRUCT_OFFSET (TpsWorld, name)

const TpsFlag tps_world_flags[] = {
  { "master-addr", G_OPTION_ARG_STRING, FIELD (master_addr),
    "host of the master (127.0.0.1); all hosts must reach it at this address", "HOST" },
  { "master-port", G_OPTION_ARG_INT, FIELD (master_port),
    "port of the master (a free one; 29500 with --rank)", "PORT", TPS_FLAGS_NOT_GIVEN, 0, 65535 },
  { "job", G_OPTION_ARG_STRING, FIELD (job),
    "name of this world; a role of another world is refused (chosen by the master)", "NAME" },
  { "rank", G_OPTION_ARG_INT, FIELD (rank),
    "run as this one role of the world instead of launching all (RANK, OMPI_COMM_WORLD_RANK, "
    "PMIX_RANK, PMI_RANK, SLURM_PROCID)",
    "N", TPS_FLAGS_NOT_GIVEN, .is_silent = TRUE },
  { "world-size", G_OPTION_ARG_INT, FIELD (world_size),
    "checked against trainers, servers and one master (WORLD_SIZE, OMPI_COMM_WORLD_SIZE, PMI_SIZE, "
    "SLURM_NTASKS)",
    "N", TPS_FLAGS_NOT_GIVEN, .is_silent = TRUE },
  { "master-rank", G_OPTION_ARG_STRING, FIELD (master_rank),
    "which rank is the master: last, or first, whose host is MASTER_ADDR for torchrun (last; first "
    "under torchrun)",
    "WHICH", .words = "first last" },
  { "bind", G_OPTION_ARG_STRING, FIELD (bind),
    "address that this process listens on; 0.0.0.0 or :: for all (that of the route to the master; "
    "of the master: --master-addr)",
    "HOST" },
  { "port-range", G_OPTION_ARG_STRING, FIELD (port_range),
    "ports that roles listen on, those of their all-reduce included, for firewalls (any); the "
    "master's is --master-port",
    "FIRST-LAST" },
  { "transport", G_OPTION_ARG_STRING, FIELD (transport), "unix or tcp (unix; tcp with --rank)",
    "KIND", .words = "unix tcp" },
  { "no-shared-memory", G_OPTION_ARG_NONE, FIELD (no_shared_memory),
    "large tensors through the Unix sockets too, as through TCP" },
  { "rpc-timeout", G_OPTION_ARG_INT, FIELD (rpc_timeout),
    "seconds that a call waits for other roles (30)", "S", TPS_FLAGS_NOT_GIVEN, 1, 86400 },
  { "startup-timeout", G_OPTION_ARG_INT, FIELD (startup_timeout),
    "seconds that the roles wait for each other at the start (60)", "S", 60, 1, 86400 },
  { "socket-dir", G_OPTION_ARG_FILENAME, FIELD (socket_dir) },
  { NULL },
};

/* Reads the first variable that is set, unless the flag is given. */
static gboolean
int_from_environment (const gchar *const *names, gint64 max, gint *value, GError **error)
{
  gint64 number;

  while (*names != NULL && g_getenv (*names) == NULL)
    names++;
  if (*names == NULL || *value != TPS_FLAGS_NOT_GIVEN)
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

/* Reads the rank if a launcher has started a world. A world size of 1 does not count: every shell
 * under such a launcher has these variables. */
static gboolean
rank_from_environment (TpsWorld *world, GError **error)
{
  gint world_size = TPS_FLAGS_NOT_GIVEN, rank = TPS_FLAGS_NOT_GIVEN;

  if (!int_from_environment (world_size_variables, G_MAXINT, &world_size, error)
      || !int_from_environment (rank_variables, G_MAXINT, &rank, error))
    return FALSE;
  if (world_size <= 1 || rank < 0)
    return TRUE;
  world->rank = rank;
  if (world->world_size == TPS_FLAGS_NOT_GIVEN)
    world->world_size = world_size;
  /* For torchrun, MASTER_ADDR is the host of rank 0. */
  if (g_getenv ("TORCHELASTIC_RUN_ID") != NULL)
    tps_flags_default_to (&world->master_rank, "first");
  return int_from_environment (local_rank_variables, G_MAXINT, &world->local_rank, error);
}

gboolean
tps_world_read_environment (TpsWorld *world, GError **error)
{
  const gchar *const port_variables[] = { "MASTER_PORT", NULL };

  if (world->rank == TPS_FLAGS_NOT_GIVEN && !rank_from_environment (world, error))
    return FALSE;
  if (world->master_addr == NULL)
    world->master_addr = g_strdup (g_getenv ("MASTER_ADDR"));
  return int_from_environment (port_variables, 65535, &world->master_port, error);
}

static gboolean
check_size (const TpsWorld *world, GError **error)
{
  guint size = tps_world_get_size (world);

  if (world->world_size != TPS_FLAGS_NOT_GIVEN && world->world_size != (gint64) size)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "--world-size=%d: %u trainers, %u servers and one master make %u",
                   world->world_size, world->n_trainers, world->n_servers, size);
      return FALSE;
    }
  return world->rank == TPS_FLAGS_NOT_GIVEN
         || tps_flags_check_number ("rank", world->rank, 0, (gint64) size - 1, error);
}

/* Removes the brackets of an IPv6 literal: "[fd99::4]" becomes "fd99::4". */
static gboolean
take_brackets (const gchar *flag, gchar *host, GError **error)
{
  gsize n_bytes = host != NULL ? strlen (host) : 0;

  if (host == NULL || (n_bytes > 0 && strpbrk (host, "[]") == NULL))
    return TRUE;
  if (n_bytes < 3 || host[0] != '[' || host[n_bytes - 1] != ']')
    return tps_flags_refuse (flag, host, "a host name, an IPv4 or an IPv6 address", error);
  memmove (host, host + 1, n_bytes - 2);
  host[n_bytes - 2] = '\0';
  return TRUE;
}

static gboolean
take_port_range (TpsWorld *world, GError **error)
{
  guint first, last;
  gchar rest;

  if (world->port_range == NULL)
    return TRUE;
  if (sscanf (world->port_range, "%5u-%5u%c", &first, &last, &rest) != 2 || first < 1
      || last < first || last > 65535)
    return tps_flags_refuse ("port-range", world->port_range,
                             "FIRST-LAST with 1 <= FIRST <= LAST <= 65535, as 30000-30099", error);
  world->first_port = (guint16) first;
  world->last_port = (guint16) last;
  return TRUE;
}

static gboolean
check_job (const TpsWorld *world, GError **error)
{
  const gchar *job = world->job;
  gsize n_bytes = job != NULL ? strlen (job) : 1;

  if (n_bytes >= 1 && n_bytes <= 64
      && (job == NULL || strspn (job, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_.:-") == n_bytes))
    return TRUE;
  return tps_flags_refuse ("job", job, "1 to 64 of the characters A-Z a-z 0-9 _ . : -", error);
}

/* Converts the rank that the fleet has given to the rank in the world, whose master is the last. */
static void
deal_ranks (TpsWorld *world)
{
  gint size = (gint) tps_world_get_size (world);

  if (world->rank < 0)
    world->rank = -1;
  else if (g_str_equal (world->master_rank, "first"))
    world->rank = (world->rank + size - 1) % size;
}

gboolean
tps_world_finish_flags (TpsWorld *world, GError **error)
{
  tps_flags_default_to (&world->master_addr, "127.0.0.1");
  tps_flags_default_to (&world->master_rank, "last");
  tps_flags_default_to (&world->transport,
                        world->rank >= 0 && world->socket_dir == NULL ? "tcp" : "unix");
  tps_flags_default_number (&world->master_port, world->rank >= 0 ? DEFAULT_PORT : 0);
  tps_flags_default_number (&world->rpc_timeout, DEFAULT_RPC_TIMEOUT);
  if (!take_brackets ("master-addr", world->master_addr, error)
      || !take_brackets ("bind", world->bind, error) || !take_port_range (world, error)
      || !check_job (world, error) || !check_size (world, error))
    return FALSE;
  deal_ranks (world);
  if (world->job == NULL && !tps_world_is_role (world))
    world->job = g_strdup_printf ("%08x%08x", g_random_int (), g_random_int ());
  return TRUE;
}

const gchar *
tps_world_get_transport_title (const TpsWorld *world)
{
  if (g_str_equal (world->transport, "tcp"))
    return "TCP";
  return world->no_shared_memory ? "Unix sockets" : "Unix sockets and shared memory";
}

/* The job is compared separately. Only the master reads the files, or their users check them. */
gboolean
tps_world_is_local_flag (const gchar *name)
{
  static const gchar *const names[] = {
    "job",
    "master-addr",
    "master-port",
    "bind",
    "port-range",
    "startup-timeout",
    "repeats",
    "smoke", /* its effects are compared */
    "filestore",
    "data-config-path",
    "model-config-path",
    "server-config-path",
    "trainer-config-path",
    NULL,
  };

  return g_strv_contains (names, name);
}
