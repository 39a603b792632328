/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tokens that a server knows, by their hashes: a file of lines
 *
 *   NAME sha256:HASH [TENANT]      # comment
 *
 * A name may have several tokens, so that one can replace another. A plain SHA-256 is enough,
 * because a token is 256 random bits: no dictionary contains it, so there is nothing that a slow or
 * salted hash would protect. The server must be able to check tokens at the rate of connections.
 *
 * A TpsTokens is immutable and reference-counted. Thread: any.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_TOKEN_DIGEST_BYTES 32
#define TPS_TOKENS_MAX_BYTES ((gsize) 4 << 20) /* of a file */

typedef struct TpsTokens TpsTokens;

typedef struct
{
  guint8 digest[TPS_TOKEN_DIGEST_BYTES]; /* first: the key */
  gchar *name;                           /* of the principal: "token:NAME" */
  gchar *tenant;                         /* NULL = none is said */
} TpsTokenOwner;

/* Errors: INVALID_ARGUMENT, "FILE:LINE: reason". The text of a line is not repeated. */
TpsTokens *tps_tokens_read (const gchar *file, GError **error);
/* The same of a text; `file` is for errors. */
TpsTokens *tps_tokens_parse (const gchar *file, const gchar *text, GError **error);
TpsTokens *tps_tokens_ref (TpsTokens *tokens);
void tps_tokens_unref (TpsTokens *tokens);

void tps_token_hash (const gchar *token, guint8 digest[TPS_TOKEN_DIGEST_BYTES]);

/* The owner of the token with that hash, borrowed; NULL: it is not known. Digests are compared in
 * constant time. */
const TpsTokenOwner *tps_tokens_find (const TpsTokens *tokens,
                                      const guint8 digest[TPS_TOKEN_DIGEST_BYTES]);

/* A new token for `name` ([A-Za-z0-9_.:/@-]{1,128}) and the line for the file, both the caller's.
 * `tenant` may be NULL. Errors: INVALID_ARGUMENT, UNAVAILABLE (no random bytes). */
gchar *tps_token_make (const gchar *name, const gchar *tenant, gchar **line, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTokens, tps_tokens_unref)

G_END_DECLS
