/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/access/tokens.h"

#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/text_file.h"

#define TOKEN_PREFIX "tps_" /* lets secret scanners find tokens in sources and logs */
#define TOKEN_BYTES 32
#define HASH_PREFIX "sha256:"
#define MAX_NAME 128

struct TpsTokens
{
  GHashTable *owners; /* set of TpsTokenOwner, by digest */
};

/* ---- digests -------------------------------------------------------------------------------- */

void
tps_token_hash (const gchar *token, guint8 digest[TPS_TOKEN_DIGEST_BYTES])
{
  G_STATIC_ASSERT (SHA256_DIGEST_LENGTH == TPS_TOKEN_DIGEST_BYTES);
  SHA256 ((const guint8 *) token, strlen (token), digest);
}

/* Returns the first bytes of the digest. They are good enough, because digests are uniformly
 * distributed and peers cannot choose them. */
static guint
hash_digest (gconstpointer digest)
{
  guint hash;

  memcpy (&hash, digest, sizeof hash);
  return hash;
}

static gboolean
equal_digests (gconstpointer a, gconstpointer b)
{
  return CRYPTO_memcmp (a, b, TPS_TOKEN_DIGEST_BYTES) == 0;
}

static gboolean
parse_digest (const gchar *text, guint8 *digest)
{
  if (!g_str_has_prefix (text, HASH_PREFIX))
    return FALSE;
  text += strlen (HASH_PREFIX);
  if (strlen (text) != (gsize) TPS_TOKEN_DIGEST_BYTES * 2)
    return FALSE;
  for (guint i = 0; i < TPS_TOKEN_DIGEST_BYTES; i++)
    {
      gint high = g_ascii_xdigit_value (text[2 * i]), low = g_ascii_xdigit_value (text[2 * i + 1]);

      if (high < 0 || low < 0)
        return FALSE;
      digest[i] = (guint8) (high << 4 | low);
    }
  return TRUE;
}

/* ---- token file ----------------------------------------------------------------------------- */

static gboolean
is_name (const gchar *text)
{
  gsize n = strspn (text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_.:/@-");

  return n >= 1 && n <= MAX_NAME && text[n] == '\0';
}

static void
free_owner (gpointer data)
{
  TpsTokenOwner *owner = data;

  g_free (owner->name);
  g_free (owner->tenant);
  g_free (owner);
}

/* Adds the entry of a line. Returns NULL, or the reason why the line is invalid (static). */
static const gchar *
add_owner (TpsTokens *tokens, gchar **words)
{
  guint n_words = g_strv_length (words);
  g_autofree TpsTokenOwner *owner = g_new0 (TpsTokenOwner, 1);

  if (n_words < 2 || n_words > 3)
    return "expected NAME sha256:HASH [TENANT]";
  if (!is_name (words[0]))
    return "the name must match [A-Za-z0-9_.:/@-]{1,128}";
  if (!parse_digest (words[1], owner->digest))
    return "the hash must be sha256: and 64 hexadecimal digits";
  if (n_words == 3 && !is_name (words[2]))
    return "the tenant must match [A-Za-z0-9_.:/@-]{1,128}";
  if (g_hash_table_contains (tokens->owners, owner))
    return "this hash occurs twice";
  owner->name = g_strconcat ("token:", words[0], NULL);
  owner->tenant = g_strdup (words[2]);
  g_hash_table_add (tokens->owners, g_steal_pointer (&owner));
  return NULL;
}

/* Returns the words of a line without its comment, terminated by NULL. The caller owns them. */
static gchar **
split_line (const gchar *line)
{
  g_autofree gchar *text = g_strndup (line, strcspn (line, "#"));
  g_auto (GStrv) parts = g_strsplit_set (text, " \t\r", -1);
  GPtrArray *words = g_ptr_array_new ();

  for (guint i = 0; parts[i] != NULL; i++)
    if (parts[i][0] != '\0')
      g_ptr_array_add (words, g_strdup (parts[i]));
  g_ptr_array_add (words, NULL);
  return (gchar **) g_ptr_array_free (words, FALSE);
}

TpsTokens *
tps_tokens_parse (const gchar *file, const gchar *text, GError **error)
{
  g_autoptr (TpsTokens) tokens = g_new0 (TpsTokens, 1);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);

  tokens->owners = g_hash_table_new_full (hash_digest, equal_digests, free_owner, NULL);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto (GStrv) words = split_line (lines[i]);
      const gchar *reason = words[0] != NULL ? add_owner (tokens, words) : NULL;

      if (reason != NULL)
        return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT, "%s:%u: %s", file, i + 1, reason);
    }
  return g_steal_pointer (&tokens);
}

TpsTokens *
tps_tokens_read (const gchar *file, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autofree gchar *text = tps_text_file_read (file, TPS_TOKENS_MAX_BYTES, &cause);

  if (text != NULL)
    return tps_tokens_parse (file, text, error);
  return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT, "%s: %s", file, cause->message);
}

void
tps_tokens_free (TpsTokens *tokens)
{
  g_hash_table_unref (tokens->owners);
  g_free (tokens);
}

const TpsTokenOwner *
tps_tokens_find (const TpsTokens *tokens, const guint8 digest[TPS_TOKEN_DIGEST_BYTES])
{
  return g_hash_table_lookup (tokens->owners, digest);
}

/* ---- new tokens ----------------------------------------------------------------------------- */

/* Returns TOKEN_PREFIX and the bytes in URL-safe Base64 without padding. The caller owns it. */
static gchar *
encode_token (const guint8 *bytes)
{
  g_autofree gchar *text = g_base64_encode (bytes, TOKEN_BYTES);

  g_strdelimit (text, "+", '-');
  g_strdelimit (text, "/", '_');
  text[strcspn (text, "=")] = '\0';
  return g_strconcat (TOKEN_PREFIX, text, NULL);
}

gchar *
tps_token_make (const gchar *name, const gchar *tenant, gchar **line, GError **error)
{
  guint8 bytes[TOKEN_BYTES], digest[TPS_TOKEN_DIGEST_BYTES];
  GString *text;
  gchar *token;

  if (!is_name (name) || (tenant != NULL && !is_name (tenant)))
    return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                          "names of tokens and tenants must match [A-Za-z0-9_.:/@-]{1,128}");
  if (getrandom (bytes, sizeof bytes, 0) != (gssize) sizeof bytes)
    return tps_fail_null (error, TPS_ERROR_UNAVAILABLE, "no random bytes");
  token = encode_token (bytes);
  explicit_bzero (bytes, sizeof bytes);
  tps_token_hash (token, digest);
  text = g_string_new (name);
  g_string_append (text, " " HASH_PREFIX);
  for (guint i = 0; i < TPS_TOKEN_DIGEST_BYTES; i++)
    g_string_append_printf (text, "%02x", digest[i]);
  if (tenant != NULL)
    g_string_append_printf (text, " %s", tenant);
  *line = g_string_free (text, FALSE);
  return token;
}
