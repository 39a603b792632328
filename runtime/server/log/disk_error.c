/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/disk_error.h"

#include <errno.h>

#include "runtime/base/error.h"

#define RETRY_MS 1000

typedef struct
{
  gint code;
  TpsErrorCode error;
  const gchar *remedy; /* NULL = none */
  gboolean passes;     /* the cause may go away without the operator, so a call may be repeated */
} Kind;

static const Kind kinds[] = {
  { ENOSPC, TPS_ERROR_RESOURCE_EXHAUSTED, "make room on the disk", FALSE },
  { EDQUOT, TPS_ERROR_RESOURCE_EXHAUSTED, "make room, or raise the quota of the disk", FALSE },
  { EFBIG, TPS_ERROR_RESOURCE_EXHAUSTED, "raise the limit on the size of files (ulimit -f)",
    FALSE },
  { EMFILE, TPS_ERROR_RESOURCE_EXHAUSTED, "raise the limit of open files (ulimit -n)", TRUE },
  { ENFILE, TPS_ERROR_RESOURCE_EXHAUSTED, "raise the limit of the machine (fs.file-max)", TRUE },
  { ENOMEM, TPS_ERROR_RESOURCE_EXHAUSTED, "make memory available to the system", TRUE },
  { ENOENT, TPS_ERROR_NOT_FOUND, NULL, FALSE },
  { EEXIST, TPS_ERROR_ALREADY_EXISTS, NULL, FALSE },
  { ENOTEMPTY, TPS_ERROR_ALREADY_EXISTS, NULL, FALSE },
  { EACCES, TPS_ERROR_PERMISSION_DENIED, "give the user of this process the right to it", FALSE },
  { EPERM, TPS_ERROR_PERMISSION_DENIED, NULL, FALSE },
  { EROFS, TPS_ERROR_PERMISSION_DENIED, NULL, FALSE },
  /* the path itself is wrong, whatever the operation */
  { ENOTDIR, TPS_ERROR_INVALID_ARGUMENT, "a part of the path is not a folder", FALSE },
  { EISDIR, TPS_ERROR_INVALID_ARGUMENT, "name a file", FALSE },
  { ELOOP, TPS_ERROR_INVALID_ARGUMENT, "a link of the path leads back to itself", FALSE },
  { ENAMETOOLONG, TPS_ERROR_INVALID_ARGUMENT, "choose a shorter path", FALSE },
  { ENXIO, TPS_ERROR_INVALID_ARGUMENT, "it is not a regular file", FALSE }, /* a socket */
};

gboolean
tps_disk_set_error (GError **error, const gchar *operation, const gchar *path, gint code)
{
  static const Kind other = { 0, TPS_ERROR_INTERNAL, NULL, FALSE };
  const Kind *kind = &other;
  GError *made;

  for (guint i = 0; i < G_N_ELEMENTS (kinds) && kind == &other; i++)
    if (kinds[i].code == code)
      kind = &kinds[i];
  made = g_error_new (TPS_ERROR, (gint) kind->error, "%s: %s failed: %s%s%s", path, operation,
                      g_strerror (code), kind->remedy != NULL ? "; " : "",
                      kind->remedy != NULL ? kind->remedy : "");
  if (kind->passes)
    tps_error_set_retry_after_ms (made, RETRY_MS);
  g_propagate_error (error, made);
  return FALSE;
}
