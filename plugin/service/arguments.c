/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/arguments.h"

#include <string.h>

#include "runtime/error.h"

gchar *
tps_arguments_dup_string (TpsReader *in)
{
  TpsBytesView view = tps_reader_binary (in);

  if (view.n_bytes == 0 || memchr (view.data, '\0', view.n_bytes) != NULL)
    return g_strdup ("");
  return g_strndup ((const gchar *) view.data, view.n_bytes);
}

gboolean
tps_arguments_check (guint seen, const gchar *const *names, GError **error)
{
  for (guint i = 0; names[i] != NULL; i++)
    if ((seen & (1u << i)) == 0)
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "missing argument %s", names[i]);
        return FALSE;
      }
  return TRUE;
}
