/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A role finds its master and registers with it: the role's side of roster.h. */

#pragma once

#include "bench/world/card.h"
#include "plugin/client/client.h"

G_BEGIN_DECLS

/* Returns when the master has taken this process as its role. `address` is where it serves, `flags`
 * are those of tps_card_new(). The master may come up later, within --startup-timeout. Errors:
 * DEADLINE_EXCEEDED or those of connections (no master), INVALID_ARGUMENT (the master is of another
 * world), ALREADY_EXISTS (another process has the rank; the message names both), ABORTED (the
 * master has ended the run, and why), ABORTED after a signal. */
gboolean tps_enroll (TpsClient *master, const TpsWorld *world, const gchar *name,
                     const gchar *address, const GPtrArray *flags, GError **error);

/* Tells the master that this role has seen the stop, so that the master may go. */
void tps_enroll_confirm_stop (TpsClient *master, const TpsWorld *world);

G_END_DECLS
