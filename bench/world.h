/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Who is who: ranks are dealt as in the originals, trainers first, then servers, the master
 * last. */

#pragma once

#include "bench/options.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_WORLD_TRAINER,
  TPS_WORLD_SERVER,
  TPS_WORLD_MASTER,
} TpsWorldKind;

TpsWorldKind tps_world_get_kind (const TpsBenchOptions *options, guint rank);

/* "trainer0", "server2" (the number is the global rank), "master"; owned. */
gchar *tps_world_get_name (const TpsBenchOptions *options, guint rank);

/* The rendezvous key under which a role puts its address; owned. */
gchar *tps_world_get_address_key (guint rank);

/* The rendezvous key under which a role says that it has seen the stop; owned. */
gchar *tps_world_get_stopped_key (guint rank);

/* The rendezvous key that ends all roles when it is there. */
#define TPS_WORLD_STOP_KEY "world/stop"

G_END_DECLS
