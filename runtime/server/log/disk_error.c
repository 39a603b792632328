/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/disk_error.h"

#include <errno.h>

#include "runtime/base/error.h"

static TpsErrorCode
code_of (gint code)
{
  switch (code)
    {
    case ENOSPC:
    case EDQUOT:
      return TPS_ERROR_RESOURCE_EXHAUSTED;
    case ENOENT:
      return TPS_ERROR_NOT_FOUND;
    case EEXIST:
      return TPS_ERROR_ALREADY_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
      return TPS_ERROR_PERMISSION_DENIED;
    default:
      return TPS_ERROR_INTERNAL;
    }
}

gboolean
tps_disk_set_error (GError **error, const gchar *operation, const gchar *path, gint code)
{
  g_set_error (error, TPS_ERROR, (gint) code_of (code), "%s: %s failed: %s", path, operation,
               g_strerror (code));
  return FALSE;
}
