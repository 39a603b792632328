/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The functions shared by both directions of transcode.h. */

#pragma once

#include "plugin/host/transcode.h"

G_BEGIN_DECLS

/* Feeds bytes of one message in binary protocol to the scanner. The message may be fed in parts.
 * Errors: those of the scanner; PROTOCOL if there are bytes after the message. */
gboolean tps_transcode_feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes,
                             GError **error);

/* Sets CONNECTION_LOST, "cannot `what`: reason", and returns FALSE. Takes ownership of `cause`,
 * which may be NULL if the library's function reports no reason. */
gboolean tps_transcode_blame (GError *cause, const gchar *what, GError **error);

G_END_DECLS
