/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/access/glob.h"

/* After a mismatch, the last '*' takes one byte more. Earlier ones need no other attempt. */
gboolean
tps_glob_matches (const gchar *pattern, const gchar *text)
{
  const gchar *star = NULL;
  const gchar *after = NULL; /* position in the text behind the bytes of `star` */

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
