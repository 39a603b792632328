/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The name of a peer in its certificate. Private to plugin/net/tls. */

#pragma once

#include <openssl/x509.h>

#include <glib.h>

G_BEGIN_DECLS

/* Returns the first of these names of the certificate: a SAN URI spiffe://DOMAIN/PATH; a SAN DNS
 * name, as "dns:NAME"; the last common name of the subject, as "cn:NAME". Names with bytes other
 * than printable ASCII are ignored. Owned by the caller; NULL if there is none. */
gchar *tps_certificate_dup_name (X509 *certificate);

G_END_DECLS
