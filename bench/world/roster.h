/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The master's list of the roles of a world: their registration, their addresses and their state.
 *
 * Registration: a role puts its card under tps_world_get_role_key(). The master compares it with
 * its own card and puts it under tps_world_get_welcome_key(), which assigns the rank to that
 * process. Another process with the same rank then finds a card with a foreign nonce there, and
 * ends. A card that does not match ends the run. The role's side is enroll.h.
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
  TpsCard *card; /* NULL before registration, as the next two */
  gchar *address;
  TpsClient *client;
  gboolean is_lost; /* a trainer that the world continues without */

  /* State of a trainer in the running pass. */
  gint64 heartbeat;
  gint64 alive_ns;
  TpsTrainStatus status;
} TpsRole;

typedef struct
{
  const TpsWorld *world;
  TpsClient *self;  /* borrowed; to the master's own rendezvous */
  TpsCard *card;    /* of the master */
  gchar *address;   /* of the rendezvous, for messages */
  GPtrArray *roles; /* of TpsRole, in the order of ranks, without the master */
} TpsRoster;

/* Creates a roster, owned by the caller. `self` is borrowed, and the card is taken over. */
TpsRoster *tps_roster_new (const TpsWorld *world, TpsClient *self, TpsCard *card,
                           const gchar *address);
void tps_roster_free (TpsRoster *roster);

/* Waits until all roles have registered, for at most --startup-timeout. `check` is called
 * repeatedly meanwhile; its error ends the wait. Blocks. Errors: those of `check`; INVALID_ARGUMENT
 * (a card that does not match, or roles that cannot reach each other); DEADLINE_EXCEEDED naming all
 * missing roles. */
gboolean tps_roster_meet (TpsRoster *roster, gboolean (*check) (gpointer user_data, GError **error),
                          gpointer user_data, GError **error);

/* Ends all registered roles and waits for a short time until they have noticed. `failure` is the
 * reason why the run failed; NULL: it succeeded. Lost or hanging roles are not waited for. */
void tps_roster_stop (TpsRoster *roster, const gchar *failure);

/* Adds the names of roles before their addresses in the message: "server2 at 10.0.0.3:4013:
 * Connection refused". */
void tps_roster_name_addresses (const TpsRoster *roster, GError *error);

/* Explains why other hosts cannot reach the master, with a remedy; NULL if they can, or if the
 * world has no other hosts. With `any`, also explains a loopback address given by --master-addr.
 * Owned by the caller. */
gchar *tps_roster_explain_loopback (const TpsWorld *world, gboolean any);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRoster, tps_roster_free)

G_END_DECLS
