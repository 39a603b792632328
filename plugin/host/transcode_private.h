/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What both directions of transcode.h share. */

#pragma once

#include "plugin/host/transcode.h"

G_BEGIN_DECLS

/* Gives the scanner bytes of one message in binary protocol. Errors: the scanner's; PROTOCOL where
 * they go on after its end. */
gboolean tps_transcode_feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes,
                             GError **error);

/* FALSE, with CONNECTION_LOST: "cannot `what`" and why, which some of the library's functions do
 * not say (NULL). Takes over `cause`. */
gboolean tps_transcode_blame (GError *cause, const gchar *what, GError **error);

G_END_DECLS
