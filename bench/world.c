/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world.h"

TpsWorldKind
tps_world_get_kind (const TpsBenchOptions *o, guint rank)
{
  guint n_trainers = (guint) (o->ntrainer + o->ncudatrainer);

  if (rank < n_trainers)
    return TPS_WORLD_TRAINER;
  return rank + 1 < tps_bench_options_get_world_size (o) ? TPS_WORLD_SERVER : TPS_WORLD_MASTER;
}

gchar *
tps_world_get_name (const TpsBenchOptions *options, guint rank)
{
  switch (tps_world_get_kind (options, rank))
    {
    case TPS_WORLD_TRAINER:
      return g_strdup_printf ("trainer%u", rank);
    case TPS_WORLD_SERVER:
      return g_strdup_printf ("server%u", rank);
    default:
      return g_strdup ("master");
    }
}

gchar *
tps_world_get_address_key (guint rank)
{
  return g_strdup_printf ("world/address/%u", rank);
}

gchar *
tps_world_get_stopped_key (guint rank)
{
  return g_strdup_printf ("world/stopped/%u", rank);
}
