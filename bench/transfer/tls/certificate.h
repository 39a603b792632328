/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A self-signed certificate for 127.0.0.1. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The only cipher suite of a run, by its name in OpenSSL. TPS negotiates it by default. */
#define TPS_TRANSFER_CIPHER "TLS_AES_256_GCM_SHA384"

/* Writes a certificate and its key (P-256, PEM) to a new file that only its owner may read. Errors:
 * UNAVAILABLE. */
gboolean tps_transfer_certificate_write (const gchar *path, GError **error);

G_END_DECLS
