/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The name of a peer in its certificate. Private to plugin/net/tls. */

#pragma once

#include <openssl/x509.h>

#include <glib.h>

G_BEGIN_DECLS

/* Returns the first of the following names that the certificate has: a SAN URI of the form
 * spiffe://DOMAIN/PATH, unchanged; a SAN DNS name, as "dns:NAME"; the last common name of the
 * subject, as "cn:NAME". Names that contain bytes other than printable ASCII are ignored. The
 * caller owns the result. Returns NULL if the certificate has no such name. */
gchar *tps_certificate_dup_name (X509 *certificate);

G_END_DECLS
