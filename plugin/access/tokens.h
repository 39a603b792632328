/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The hashes of the tokens that a server accepts: a file of lines
 *
 *   NAME sha256:HASH [TENANT]      # comment
 *
 * A name may have several tokens, so that a new one can replace an old one without a gap. A plain
 * SHA-256 is enough, because a token is 256 random bits: no dictionary contains it. A TpsTokens is
 * immutable and reference-counted. Thread: any. */

#pragma once

#include <thriftps/access.h>

G_BEGIN_DECLS

#define TPS_TOKEN_DIGEST_BYTES 32
#define TPS_TOKENS_MAX_BYTES ((gsize) 4 << 20) /* of a file */

typedef struct TpsTokens TpsTokens;

typedef struct
{
  guint8 digest[TPS_TOKEN_DIGEST_BYTES]; /* the key of the hash table; must be first */
  gchar *name;                           /* of the principal: "token:NAME" */
  gchar *tenant;                         /* NULL = the file names none */
} TpsTokenOwner;

/* Reads the hashes from a file. The caller owns the result. Errors: INVALID_ARGUMENT, "FILE:LINE:
 * reason", without the text of the line. */
TpsTokens *tps_tokens_read (const gchar *file, GError **error);
/* Parses the hashes in `text`; `file` is the file name for errors. The caller owns the result.
 * Errors: those of tps_tokens_read(). */
TpsTokens *tps_tokens_parse (const gchar *file, const gchar *text, GError **error);
void tps_tokens_free (TpsTokens *tokens);

/* Sets `digest` to the SHA-256 of the token. Thread: any. */
void tps_token_hash (const gchar *token, guint8 digest[TPS_TOKEN_DIGEST_BYTES]);

/* Returns the owner of the token with the hash `digest`, borrowed; NULL = the token is unknown.
 * Digests are compared in constant time. */
const TpsTokenOwner *tps_tokens_find (const TpsTokens *tokens,
                                      const guint8 digest[TPS_TOKEN_DIGEST_BYTES]);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTokens, tps_tokens_free)

G_END_DECLS
