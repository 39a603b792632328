/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Errors, the log, the version of ThriftPS, and structs that grow.
 *
 * Every function that can fail has a `GError **error` as its last parameter, which may be NULL, and
 * returns FALSE or NULL after a failure. All errors have the domain TPS_ERROR. Their codes are
 * grouped by the extent of the damage, and callers should decide by that group, not by lists of
 * codes:
 *
 *   if (tps_error_damage (error) != TPS_DAMAGE_REQUEST)
 *     reconnect ();
 *   else if (tps_error_get_retry_after_ms (error) >= 0)
 *     try_again_later ();
 *
 * An error message names the object, the value and the limit.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* "major.minor.patch" of these headers. */
#define TPS_VERSION "0.1.0"

/* An empty struct of options. A struct that a program fills in begins with `size`, so that later
 * versions can append fields. Fields that are zero, or beyond `size`, have their defaults. Size 0
 * stands for the struct of version 0.1.0. For a variable in a function:
 *
 *   TpsClientOptions options = TPS_INIT (TpsClientOptions);
 */
#ifdef __cplusplus
#define TPS_INIT(Type)          \
  ([] {                         \
    Type init_ = {};            \
    init_.size = sizeof (Type); \
    return init_;               \
  }())
#else
#define TPS_INIT(Type) ((Type) { .size = sizeof (Type) })
#endif

#define TPS_ERROR (tps_error_quark ())

typedef enum
{
  /* This request is wrong or cannot be served; other requests are not affected. The numbers are
   * those of ErrorCode in thrift/node.thrift plus 100. */
  TPS_ERROR_INVALID_ARGUMENT = 101,
  TPS_ERROR_NOT_FOUND = 102,
  TPS_ERROR_ALREADY_EXISTS = 103,
  TPS_ERROR_STALE = 104,
  TPS_ERROR_DUPLICATE = 105,
  TPS_ERROR_DEADLINE_EXCEEDED = 106,
  TPS_ERROR_RESOURCE_EXHAUSTED = 107,
  TPS_ERROR_UNAVAILABLE = 108,
  TPS_ERROR_ABORTED = 109,
  TPS_ERROR_UNAUTHENTICATED = 110,
  TPS_ERROR_PERMISSION_DENIED = 111,
  TPS_ERROR_INTERNAL = 112,

  /* This connection must not be used again. */
  TPS_ERROR_CONNECTION_LOST = 201,
  TPS_ERROR_PROTOCOL = 202,

  /* This process group must not be used again. */
  TPS_ERROR_GROUP_BROKEN = 301,

  /* This device must not be used again. */
  TPS_ERROR_DEVICE_LOST = 401,
} TpsErrorCode;

typedef enum
{
  TPS_DAMAGE_REQUEST = 1,
  TPS_DAMAGE_CONNECTION = 2,
  TPS_DAMAGE_GROUP = 3,
  TPS_DAMAGE_DEVICE = 4,
} TpsDamage;

/* Returns the domain TPS_ERROR. */
GQuark tps_error_quark (void);

/* Returns the extent of the damage of an error. An error of a different domain counts as
 * TPS_DAMAGE_REQUEST. Thread: any. */
TpsDamage tps_error_damage (const GError *error);

/* The wire's name of a code, e.g. "DEADLINE_EXCEEDED"; static. Thread: any. */
const gchar *tps_error_code_name (gint code);

/* Return and set the milliseconds after which the request should be tried again; -1 = not given.
 * `error` must be of the domain TPS_ERROR. Thread: one at a time. */
gint tps_error_get_retry_after_ms (const GError *error);
void tps_error_set_retry_after_ms (GError *error, gint retry_after_ms);

/* Sets the levels of the log by area, such as "info,net=debug,log=warning". The default is
 * "warning". Errors: INVALID_ARGUMENT, which names the item; the levels do not change then. Thread:
 * any. */
gboolean tps_trace_set_levels (const gchar *text, GError **error);

G_END_DECLS
