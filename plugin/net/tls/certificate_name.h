/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The name of a peer as its certificate says it. Inside plugin/net/tls only. */

#pragma once

#include <openssl/x509.h>

#include <glib.h>

G_BEGIN_DECLS

/* The first of these that the certificate has: a SAN URI of the form spiffe://DOMAIN/PATH, as it
 * is; a SAN DNS name, as "dns:NAME"; the last common name of the subject, as "cn:NAME". Names with
 * other bytes than printable ASCII do not count. The caller's; NULL: there is none. */
gchar *tps_certificate_dup_name (X509 *certificate);

G_END_DECLS
