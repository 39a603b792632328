/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/error.h"

#include "runtime/base/sync.h"

#define DOMAIN_NAME "TpsError"
/* GLib places the private data before the GError, at this alignment. G_DEFINE_EXTENDED_ERROR()
 * computes the same offset. */
#define PRIVATE_ALIGNMENT (2 * sizeof (gsize))

typedef struct
{
  gint retry_after_ms;
} TpsErrorPrivate;

static TpsErrorPrivate *
private_of (const GError *error)
{
  gsize n_bytes = (sizeof (TpsErrorPrivate) + PRIVATE_ALIGNMENT - 1) & ~(PRIVATE_ALIGNMENT - 1);

  g_return_val_if_fail (error != NULL && error->domain == TPS_ERROR, NULL);
  return (TpsErrorPrivate *) ((gsize) error - n_bytes);
}

static void
init_private (GError *error)
{
  private_of (error)->retry_after_ms = -1;
}

static void
copy_private (const GError *from, GError *to)
{
  *private_of (to) = *private_of (from);
}

static void
clear_private (GError *error)
{
}

static GQuark domain;

/* A library that the program loads (runtime/device/device_library.h) contains its own copy of this
 * file, but GLib registers a domain only once. The loader ensures that the program's copy registers
 * it first. */
static void
register_domain (void)
{
  domain = g_quark_try_string (DOMAIN_NAME);
  if (domain == 0)
    domain = g_error_domain_register_static (DOMAIN_NAME, sizeof (TpsErrorPrivate), init_private,
                                             copy_private, clear_private);
}

GQuark
tps_error_quark (void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  tps_sync_check (pthread_once (&once, register_domain));
  return domain;
}

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
  return private_of (error)->retry_after_ms;
}

void
tps_error_set_retry_after_ms (GError *error, gint retry_after_ms)
{
  private_of (error)->retry_after_ms = retry_after_ms;
}

gboolean
tps_fail (GError **error, TpsErrorCode code, const gchar *format, ...)
{
  va_list args;

  va_start (args, format);
  if (error != NULL)
    g_propagate_error (error, g_error_new_valist (TPS_ERROR, code, format, args));
  va_end (args);
  return FALSE;
}
