/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The one error domain of ThriftPS, and its codes on the wire. The function that detects an error
 * sets it, once; all other functions pass it on.
 */

#pragma once

#include <thriftps/error.h>

G_BEGIN_DECLS

/* TpsErrorCode of a request minus the wire's ErrorCode. */
#define TPS_ERROR_WIRE_BASE 100

/* Returns the wire's ErrorCode number (1..12) for `error`: UNAVAILABLE for lost connections, groups
 * and devices, INTERNAL for an error of a different domain. Thread: any. */
gint tps_error_to_wire_code (const GError *error);

/* The TpsErrorCode for a wire number; TPS_ERROR_INTERNAL for an unknown one. Thread: any. */
TpsErrorCode tps_error_from_wire_code (gint wire_code);

/* Sets `error`, unless it is NULL, to a TPS_ERROR as g_set_error(), and returns FALSE. */
gboolean tps_fail (GError **error, TpsErrorCode code, const gchar *format, ...)
    G_GNUC_PRINTF (3, 4);

/* The same for a function that returns a pointer. */
#define tps_fail_null(...) ((void) tps_fail (__VA_ARGS__), NULL)

/* The delay for a request that was refused because other requests hold the memory it needs. */
#define TPS_RETRY_AFTER_MS 100

G_END_DECLS
