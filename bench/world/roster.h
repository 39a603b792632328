/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The list of the roles of a world, kept by the master: registration, addresses and state.
 *
 * Registration: a role puts its card under tps_world_get_role_key(). The master compares the card
 * with its own card. It then puts the role's card under tps_world_get_welcome_key(), which assigns
 * the rank to that process. Another process with the same rank finds a card with a foreign nonce
 * there, and exits. A card that does not match ends the run. enroll.h implements the role's
 * side. */

#pragma once

#include "bench/world/card.h"
#include "plugin/client/client.h"
#include "runtime/tensor/train_plan.h"

G_BEGIN_DECLS

/* A role and its state. */
typedef struct
{
  guint rank;
  TpsWorldKind kind;
  gchar *name;
  TpsCard *card; /* NULL before the registration, like the next two fields */
  gchar *address;
  TpsClient *client;
  gboolean is_lost; /* a trainer without which the world continues */

  /* The state of a trainer in the running pass. */
  gint64 heartbeat; /* the last heartbeat; -1 = none */
  gint64 alive_ns;  /* time of the last new heartbeat */
  TpsTrainStatus status;
} TpsRole;

typedef struct
{
  const TpsWorld *world;
  TpsClient *self;  /* to the master's own rendezvous; borrowed */
  TpsCard *card;    /* of the master */
  gchar *address;   /* of the rendezvous, for messages */
  GPtrArray *roles; /* of TpsRole, in the order of ranks, without the master */
} TpsRoster;

/* Creates a roster, which the caller owns, with all roles of `world`. Borrows `self` and `world`;
 * takes over the card; copies the address. */
TpsRoster *tps_roster_new (const TpsWorld *world, TpsClient *self, TpsCard *card,
                           const gchar *address);
void tps_roster_free (TpsRoster *roster);

/* Waits until all roles have registered, for at most --startup-timeout. Calls `check` repeatedly
 * meanwhile; its error ends the wait. Blocks. Errors: those of `check`; INVALID_ARGUMENT (a card
 * does not match, or roles cannot reach each other); DEADLINE_EXCEEDED, with the names of all
 * missing roles. */
gboolean tps_roster_meet (TpsRoster *roster, gboolean (*check) (gpointer user_data, GError **error),
                          gpointer user_data, GError **error);

/* Ends all registered roles, and waits for a short time until they have noticed. `failure` is the
 * reason of a failed run; NULL = success. Does not wait for lost roles. */
void tps_roster_stop (TpsRoster *roster, const gchar *failure);

/* Inserts the name of a role before its address in the message, as in "server2 at 10.0.0.3:4013:
 * Connection refused". */
void tps_roster_name_addresses (const TpsRoster *roster, GError *error);

/* Explains why other hosts cannot reach the master, and how to change that. Returns NULL if they
 * can, or if the world has no other hosts. If `any` is TRUE, a loopback address that the user gave
 * with --master-addr or --bind is explained, too. The caller owns the result. */
gchar *tps_roster_explain_loopback (const TpsWorld *world, gboolean any);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRoster, tps_roster_free)

G_END_DECLS
