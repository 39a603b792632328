/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any text as the headers Host, Origin and Authorization, and any bytes as the beginning of a
 * connection. If a host is accepted, it has only bytes that a host may have, and it is one of the
 * names or a number. A request that is accepted is within the limits, and is accepted no matter how
 * it was cut; a refusal is final. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/http/http_guard.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
examine (const gchar *bytes, gsize n_bytes)
{
  gsize n_request = 0, n_cut = 0;
  guint status = tps_http_guard_examine (bytes, n_bytes, &n_request);

  if (status == 0 && n_bytes >= TPS_HTTP_MAX_REQUEST_BYTES)
    abort ();
  if (status == 200
      && (n_request > n_bytes || n_request > TPS_HTTP_MAX_REQUEST_BYTES
          || tps_http_guard_examine (bytes, n_request, &n_cut) != 200 || n_cut != n_request
          || tps_http_guard_examine (bytes, n_request - 1, &n_cut) != 0))
    abort ();
  for (gsize n = n_bytes / 2; n > 0 && status != 0; n /= 2)
    {
      guint before = tps_http_guard_examine (bytes, n, &n_cut);

      if (before != 0 && before != status)
        abort ();
    }
}

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const gchar *const names[] = { "ps0", NULL };
  g_autofree gchar *text = g_strndup ((const gchar *) data, size);
  g_autofree gchar *bytes = g_malloc0 (size + 1);
  const gchar *token = tps_http_guard_find_token (text);

  if (tps_http_guard_accepts_host (text, names)
      && (strpbrk (text, "/@, \t\r\n?#") != NULL
          || strspn (text, "0123456789abcdefABCDEFlLoOcChHsStTpP.:[]%") != strlen (text)))
    abort ();
  if (token != NULL && (token < text || token > text + strlen (text)))
    abort ();
  if (size > 0)
    memcpy (bytes, data, size);
  examine (bytes, size);
  return 0;
}
