/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The card of a process: what it tells the master when it registers, and what the master tells the
 * roles.
 *
 * A card is a list of lines "name=value". The identity comes first (job, version, program, name,
 * host, pid, nonce, address); lines that begin with "--" are the flags in use. A card travels as
 * text, so a release can read the cards of another one and say that the versions differ.
 */

#pragma once

#include <glib.h>

#include "bench/world/world.h"

G_BEGIN_DECLS

typedef struct TpsCard TpsCard;

/* The card of this process. `address`: where it serves. `flags`: lines "name=value"
 * (TpsProgram.describe); both are copied. The nonce is random: it tells a process from another one
 * of the same name. */
TpsCard *tps_card_new (const TpsWorld *world, const gchar *name, const gchar *address,
                       const GPtrArray *flags);
void tps_card_free (TpsCard *card);

/* Owned by the caller. Decoding accepts any bytes: a line that makes no sense is a line without a
 * meaning. */
GBytes *tps_card_encode (const TpsCard *card);
TpsCard *tps_card_decode (GBytes *bytes);

/* The value of a line of the identity, escaped as C strings are; "" if there is none. Borrowed. */
const gchar *tps_card_get (const TpsCard *card, const gchar *name);

/* Where the process serves; owned by the caller. */
gchar *tps_card_dup_address (const TpsCard *card);

/* "trainer1 (pid 12 on host3)"; owned by the caller. */
gchar *tps_card_describe (const TpsCard *card);

/* Whether the process of `role` may take part in the world of `master`: the same program and
 * version, and the same flags except those that belong to one process alone
 * (tps_world_is_local_flag()). Errors: TPS_ERROR_INVALID_ARGUMENT that names both processes and
 * every difference with both values. */
gboolean tps_card_check (const TpsCard *role, const TpsCard *master, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCard, tps_card_free)

G_END_DECLS
