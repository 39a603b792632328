/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Full handshakes of TLS 1.3 per second, one after the other, without a byte of data. The client is
 * always `openssl s_time`. */

#pragma once

#include "bench/process/supervisor.h"

G_BEGIN_DECLS

/* With the server at `address`; NULL: with an `openssl s_server` that is started for it.
 * `certificate` names the file of its certificate. s_time counts whole seconds. Negative: an error,
 * TPS_ERROR_UNAVAILABLE if the program is missing or no handshake succeeded. */
gdouble tps_transfer_handshakes_run (TpsSupervisor *supervisor, const gchar *address,
                                     const gchar *certificate, guint seconds, GError **error);

G_END_DECLS
