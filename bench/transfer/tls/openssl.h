/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Encrypted connections: a certificate, and openssl as a peer. */

#pragma once

#include <glib.h>

#include "bench/process/child.h"

/* -- certificate -- */

/* A self-signed certificate for 127.0.0.1. */

/* The only cipher suite of a run, by its name in OpenSSL. TPS negotiates it by default. */
#define TPS_TRANSFER_CIPHER "TLS_AES_256_GCM_SHA384"

/* Writes a certificate and its key (P-256, PEM) to a new private file. Errors: UNAVAILABLE. */
gboolean tps_transfer_certificate_write (const gchar *path, GError **error);

/* -- handshakes -- */

/* Full handshakes of TLS 1.3 per second, one after another. The client is `openssl s_time`. */

/* Measures the server at `address`; NULL = an `openssl s_server`, which the function starts.
 * `certificate` is the file of the certificate. s_time counts whole `seconds`. Returns the
 * handshakes per second; negative with an error. Blocks. Errors: UNAVAILABLE (the program is
 * missing, or no handshake has succeeded). */
gdouble tps_transfer_handshakes_run (TpsSupervisor *supervisor, const gchar *address,
                                     const gchar *certificate, guint seconds, GError **error);

/* -- load openssl -- */

/* A load generator in which `openssl s_client` and `openssl s_server` move the bytes of a row as
 * one stream (row.h). Only pushes and pulls on one connection. */

/* Runs the load generator. `certificate` is a file in a folder of the run; `address` is not used.
 * Returns the exit status. Blocks until the end of the standard input. */
gint tps_transfer_load_openssl (const gchar *address, gsize max_bytes, const gchar *certificate);
