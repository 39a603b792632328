/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Full handshakes of TLS 1.3 per second, one after another, without data. The client is always
 * `openssl s_time`. */

#pragma once

#include "bench/process/supervisor.h"

G_BEGIN_DECLS

/* Measures the server at `address`; NULL = an `openssl s_server`, which the function starts.
 * `certificate` is the file of the certificate. s_time counts whole `seconds`. Returns the
 * handshakes per second; negative with an error. Blocks. Errors: UNAVAILABLE (the program is
 * missing, or no handshake has succeeded). */
gdouble tps_transfer_handshakes_run (TpsSupervisor *supervisor, const gchar *address,
                                     const gchar *certificate, guint seconds, GError **error);

G_END_DECLS
