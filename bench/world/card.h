/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The card of a process: its description of itself. Roles and the master exchange cards at the
 * registration.
 *
 * A card is a list of lines "name=value". The identity comes first (job, version, program, name,
 * host, pid, nonce, address). Lines that begin with "--" are the current flags. A card is text, so
 * a release can read the cards of another release and report the different versions. */

#pragma once

#include <glib.h>

#include "bench/world/world.h"

G_BEGIN_DECLS

typedef struct TpsCard TpsCard;

/* Creates the card of this process. `address` is its service address, and `flags` are lines
 * "name=value" (see `describe` of TpsProgram); both are copied. The random nonce distinguishes
 * processes of the same name. The caller owns the result. */
TpsCard *tps_card_new (const TpsWorld *world, const gchar *name, const gchar *address,
                       const GPtrArray *flags);
void tps_card_free (TpsCard *card);

/* tps_card_encode() returns the lines of the card as text. tps_card_decode() accepts any bytes, and
 * ignores unknown lines. The caller owns the results. */
GBytes *tps_card_encode (const TpsCard *card);
TpsCard *tps_card_decode (GBytes *bytes);

/* Returns the value of a line of the identity, escaped like a C string, or "". Borrowed. */
const gchar *tps_card_get (const TpsCard *card, const gchar *name);

/* Returns the service address of the process, unescaped. The caller owns the result. */
gchar *tps_card_dup_address (const TpsCard *card);

/* Returns a name for messages, such as "trainer1 (pid 12 on host3)". The caller owns the result. */
gchar *tps_card_describe (const TpsCard *card);

/* Checks that the process of `role` may take part in the world of `master`. The program, the
 * version and the flags must be equal. Flags of a single process (tps_world_is_local_flag()) may
 * differ. Errors: INVALID_ARGUMENT, with the names of both processes and the differences. */
gboolean tps_card_check (const TpsCard *role, const TpsCard *master, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCard, tps_card_free)

G_END_DECLS
