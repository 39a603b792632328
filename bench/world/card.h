/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The card of a process: its description of itself, exchanged between roles and master at
 * registration.
 *
 * A card is a list of lines "name=value". The identity comes first (job, version, program, name,
 * host, pid, nonce, address). Lines that begin with "--" are the current flags. A card is text, so
 * that a release can read the cards of another release and report different versions.
 */

#pragma once

#include <glib.h>

#include "bench/world/world.h"

G_BEGIN_DECLS

typedef struct TpsCard TpsCard;

/* Creates the card of this process. `address` is its service address. `flags` are lines
 * "name=value" (TpsProgram.describe). Both are copied. The nonce is random: it distinguishes
 * processes of the same name. */
TpsCard *tps_card_new (const TpsWorld *world, const gchar *name, const gchar *address,
                       const GPtrArray *flags);
void tps_card_free (TpsCard *card);

/* tps_card_encode()'s result is owned by the caller. Decoding accepts any bytes: an unknown line is
 * ignored. */
GBytes *tps_card_encode (const TpsCard *card);
TpsCard *tps_card_decode (GBytes *bytes);

/* Returns the value of a line of the identity, escaped like a C string; "" if there is none.
 * Borrowed. */
const gchar *tps_card_get (const TpsCard *card, const gchar *name);

/* Returns the service address of the process; owned by the caller. */
gchar *tps_card_dup_address (const TpsCard *card);

/* Returns "trainer1 (pid 12 on host3)"; owned by the caller. */
gchar *tps_card_describe (const TpsCard *card);

/* Checks that the process of `role` may take part in the world of `master`. Program, version and
 * flags must be equal, except for flags of a single process (tps_world_is_local_flag()). Errors:
 * TPS_ERROR_INVALID_ARGUMENT naming both processes and every difference with both values. */
gboolean tps_card_check (const TpsCard *role, const TpsCard *master, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCard, tps_card_free)

G_END_DECLS
