/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/net/tls/certificate_name.h"

#include <openssl/x509v3.h>

#define SPIFFE "spiffe://"
#define MAX_NAME_BYTES 2048 /* of a SPIFFE ID */

/* Returns the prefix and the text, which the caller owns; NULL = the text is not a valid name.
 * Access rules compare names as text, so a name must not contain a NUL, which would hide its
 * rest. */
static gchar *
make_name (const gchar *prefix, const ASN1_STRING *text)
{
  const guint8 *bytes = ASN1_STRING_get0_data (text);
  int n_bytes = ASN1_STRING_length (text);

  if (n_bytes <= 0 || n_bytes > MAX_NAME_BYTES)
    return NULL;
  for (int i = 0; i < n_bytes; i++)
    if (!g_ascii_isgraph (bytes[i]))
      return NULL;
  return g_strdup_printf ("%s%.*s", prefix, n_bytes, (const gchar *) bytes);
}

/* Returns `prefix` and the first valid alternative name of this type; NULL = none. If `scheme` is
 * not NULL, the name must begin with it. */
static gchar *
find_alternative (const GENERAL_NAMES *names, int type, const gchar *prefix, const gchar *scheme)
{
  gchar *found = NULL;

  for (int i = 0; found == NULL && i < sk_GENERAL_NAME_num (names); i++)
    {
      const GENERAL_NAME *name = sk_GENERAL_NAME_value (names, i);

      if (name->type != type)
        continue;
      found = make_name (prefix, name->d.ia5);
      if (found != NULL && scheme != NULL && !g_str_has_prefix (found, scheme))
        g_clear_pointer (&found, g_free);
    }
  return found;
}

/* Returns the last common name, which is the most specific one; NULL = none. */
static gchar *
find_common_name (X509 *certificate)
{
  X509_NAME *subject = X509_get_subject_name (certificate);
  int last = -1;

  for (int i = last; (i = X509_NAME_get_index_by_NID (subject, NID_commonName, i)) >= 0;)
    last = i;
  return last >= 0
             ? make_name ("cn:", X509_NAME_ENTRY_get_data (X509_NAME_get_entry (subject, last)))
             : NULL;
}

gchar *
tps_certificate_dup_name (X509 *certificate)
{
  GENERAL_NAMES *names = X509_get_ext_d2i (certificate, NID_subject_alt_name, NULL, NULL);
  gchar *name = find_alternative (names, GEN_URI, "", SPIFFE);

  if (name == NULL)
    name = find_alternative (names, GEN_DNS, "dns:", NULL);
  if (name == NULL)
    name = find_common_name (certificate);
  GENERAL_NAMES_free (names);
  return name;
}
