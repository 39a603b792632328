/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The errors of disks that use the system's files. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Sets the error of `operation` on `path` for an errno. Returns FALSE. */
gboolean tps_disk_set_error (GError **error, const gchar *operation, const gchar *path, gint code);

G_END_DECLS
