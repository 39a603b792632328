/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of a world as their master knows them: who has registered, where they serve, how they
 * are.
 *
 * Registration: a role puts its card under tps_world_get_role_key(). The master compares it with
 * its own and puts it under tps_world_get_welcome_key(), which makes that process the role: another
 * process that wants the same rank finds a card with a foreign nonce there, and ends. A card that
 * does not fit ends the run. The role's side is enroll.h.
 */

#pragma once

#include "bench/world/card.h"
#include "plugin/client/client.h"
#include "runtime/trainer/pass/train_plan.h"

G_BEGIN_DECLS

typedef struct
{
  guint rank;
  TpsWorldKind kind;
  gchar *name;
  TpsCard *card; /* these three: NULL before it has registered */
  gchar *address;
  TpsClient *client;
  gboolean is_lost; /* a trainer that the world goes on without */

  /* Of the running pass of a trainer. */
  gint64 heartbeat;
  gint64 alive_ns;
  TpsTrainStatus status;
} TpsRole;

typedef struct
{
  const TpsWorld *world;
  TpsClient *self;  /* borrowed: to the master's own rendezvous */
  TpsCard *card;    /* the master's */
  gchar *address;   /* of the rendezvous, for messages */
  GPtrArray *roles; /* of TpsRole, in the order of ranks, without the master */
} TpsRoster;

/* `self` is borrowed, the card is taken over. */
TpsRoster *tps_roster_new (const TpsWorld *world, TpsClient *self, TpsCard *card,
                           const gchar *address);
void tps_roster_free (TpsRoster *roster);

/* Waits until all roles have registered, for at most --startup-timeout. `check` is asked again and
 * again meanwhile; its error ends the wait. Errors: those of `check`; INVALID_ARGUMENT: a card that
 * does not fit, or roles that cannot reach each other; DEADLINE_EXCEEDED that names all missing
 * roles. Blocks. */
gboolean tps_roster_meet (TpsRoster *roster, gboolean (*check) (gpointer user_data, GError **error),
                          gpointer user_data, GError **error);

/* Ends all roles that have registered and waits shortly until they know. `failure`: why the run
 * failed; NULL: it did not. Roles that are lost or hang are not waited for. */
void tps_roster_stop (TpsRoster *roster, const gchar *failure);

/* Puts the names of roles before their addresses in the message: "server2 at 10.0.0.3:4013:
 * Connection refused". */
void tps_roster_name_addresses (const TpsRoster *roster, GError *error);

/* Why other hosts cannot reach the master and what to do; NULL where they can, or where nothing
 * says that they should. `any`: also where --master-addr says loopback in so many words. Owned. */
gchar *tps_roster_explain_loopback (const TpsWorld *world, gboolean any);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRoster, tps_roster_free)

G_END_DECLS
