/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Uses any text as the headers Host, Origin and Authorization. If a host is accepted, it has only
 * bytes that a host may have, and it is one of the names or a number. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/http/http_guard.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput (const uint8_t *data, size_t size)
{
  static const gchar *const names[] = { "ps0", NULL };
  g_autofree gchar *text = g_strndup ((const gchar *) data, size);
  const gchar *token = tps_http_guard_find_token (text);

  if (tps_http_guard_accepts_host (text, names)
      && (strpbrk (text, "/@, \t\r\n?#") != NULL
          || strspn (text, "0123456789abcdefABCDEFlLoOcChHsStTpP.:[]%") != strlen (text)))
    abort ();
  if (token != NULL && (token < text || token > text + strlen (text)))
    abort ();
  tps_http_guard_is_same_origin (text, "127.0.0.1:8080");
  return 0;
}
