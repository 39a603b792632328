/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/world.h"

#include <string.h>

#include "bench/process/flags.h"

void
tps_world_init (TpsWorld *world, const gchar *program, const gchar *server_name)
{
  *world = (TpsWorld) { .program = program,
                        .server_name = server_name,
                        .rank = TPS_FLAGS_NOT_GIVEN,
                        .world_size = TPS_FLAGS_NOT_GIVEN,
                        .local_rank = TPS_FLAGS_NOT_GIVEN,
                        .master_port = TPS_FLAGS_NOT_GIVEN,
                        .rpc_timeout = TPS_FLAGS_NOT_GIVEN,
                        .startup_timeout = 60 };
}

void
tps_world_clear (TpsWorld *world)
{
  g_clear_pointer (&world->job, g_free);
  g_clear_pointer (&world->master_rank, g_free);
  g_clear_pointer (&world->master_addr, g_free);
  g_clear_pointer (&world->bind, g_free);
  g_clear_pointer (&world->port_range, g_free);
  g_clear_pointer (&world->transport, g_free);
  g_clear_pointer (&world->socket_dir, g_free);
  g_clear_pointer (&world->given, g_strfreev);
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
