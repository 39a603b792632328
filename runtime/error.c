/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/error.h"

typedef struct
{
  gint retry_after_ms;
} TpsErrorPrivate;

static void
tps_error_private_init (TpsErrorPrivate *private)
{
  private->retry_after_ms = -1;
}

static void
tps_error_private_copy (const TpsErrorPrivate *from, TpsErrorPrivate *to)
{
  *to = *from;
}

static void
tps_error_private_clear (TpsErrorPrivate *private)
{
}

G_DEFINE_EXTENDED_ERROR (TpsError, tps_error)

TpsDamage
tps_error_damage (const GError *error)
{
  if (error->domain != TPS_ERROR || error->code < TPS_ERROR_WIRE_BASE)
    return TPS_DAMAGE_REQUEST;
  return (TpsDamage) (error->code / 100);
}

gint
tps_error_to_wire_code (const GError *error)
{
  if (error->domain != TPS_ERROR)
    return TPS_ERROR_INTERNAL - TPS_ERROR_WIRE_BASE;
  if (tps_error_damage (error) != TPS_DAMAGE_REQUEST)
    return TPS_ERROR_UNAVAILABLE - TPS_ERROR_WIRE_BASE;
  return error->code - TPS_ERROR_WIRE_BASE;
}

TpsErrorCode
tps_error_from_wire_code (gint wire_code)
{
  if (wire_code < 1 || wire_code > TPS_ERROR_INTERNAL - TPS_ERROR_WIRE_BASE)
    return TPS_ERROR_INTERNAL;
  return (TpsErrorCode) (wire_code + TPS_ERROR_WIRE_BASE);
}

const gchar *
tps_error_code_name (gint code)
{
  static const gchar *const request_names[] = {
    "INVALID_ARGUMENT", "NOT_FOUND",         "ALREADY_EXISTS",     "STALE",
    "DUPLICATE",        "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE",
    "ABORTED",          "UNAUTHENTICATED",   "PERMISSION_DENIED",  "INTERNAL",
  };

  if (code > TPS_ERROR_WIRE_BASE && code <= TPS_ERROR_INTERNAL)
    return request_names[code - TPS_ERROR_WIRE_BASE - 1];
  switch (code)
    {
    case TPS_ERROR_CONNECTION_LOST:
      return "CONNECTION_LOST";
    case TPS_ERROR_PROTOCOL:
      return "PROTOCOL";
    case TPS_ERROR_GROUP_BROKEN:
      return "GROUP_BROKEN";
    case TPS_ERROR_DEVICE_LOST:
      return "DEVICE_LOST";
    default:
      return "UNKNOWN";
    }
}

gint
tps_error_get_retry_after_ms (const GError *error)
{
  return tps_error_get_private (error)->retry_after_ms;
}

void
tps_error_set_retry_after_ms (GError *error, gint retry_after_ms)
{
  tps_error_get_private (error)->retry_after_ms = retry_after_ms;
}
