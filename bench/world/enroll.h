/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The registration of a role with its master. roster.h implements the master's side. */

#pragma once

#include "bench/world/card.h"
#include "plugin/client/client.h"

G_BEGIN_DECLS

/* Registers this process as a role. Returns when the master has accepted it. `address` is the
 * service address of the process, and `flags` are those of tps_card_new(). The master may start
 * later, within --startup-timeout. Blocks. Errors: DEADLINE_EXCEEDED or those of connections (no
 * master), INVALID_ARGUMENT (the master belongs to another world), ALREADY_EXISTS (another process
 * has the rank; the message names both), ABORTED (the master has ended the run, or a signal has
 * arrived). */
gboolean tps_enroll (TpsClient *master, const TpsWorld *world, const gchar *name,
                     const gchar *address, const GPtrArray *flags, GError **error);

/* Confirms to the master that this role has seen the stop. The master waits for this confirmation.
 * Errors are ignored, because the master may have ended. */
void tps_enroll_confirm_stop (TpsClient *master, const TpsWorld *world);

G_END_DECLS
