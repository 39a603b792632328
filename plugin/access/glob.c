/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/access/glob.h"

/* After a mismatch, the last '*' takes one more byte of the text. Earlier stars need not be tried
 * again: each has already matched the shortest possible text, and the last star can match the
 * rest. */
gboolean
tps_glob_matches (const gchar *pattern, const gchar *text)
{
  const gchar *star = NULL;
  const gchar *after = NULL; /* position in the text after the bytes that `star` matches */

  while (*text != '\0')
    if (*pattern == '*')
      {
        star = pattern++;
        after = text;
      }
    else if (*pattern == '?' || *pattern == *text)
      {
        pattern++;
        text++;
      }
    else if (star != NULL)
      {
        pattern = star + 1;
        text = ++after;
      }
    else
      return FALSE;
  while (*pattern == '*')
    pattern++;
  return *pattern == '\0';
}

gboolean
tps_glob_matches_any (const gchar *const *patterns, const gchar *text)
{
  for (; *patterns != NULL; patterns++)
    if (tps_glob_matches (*patterns, text))
      return TRUE;
  return FALSE;
}
