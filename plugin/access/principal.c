/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/access/principal.h"

#include "runtime/base/sync.h"

struct TpsPrincipal
{
  TpsRefcount refcount;
  TpsPrincipalKind kind;
  gchar *name;
  gchar *tenant;
};

static gchar anonymous_name[] = "anonymous";
static gchar anonymous_tenant[] = TPS_ANONYMOUS_TENANT;

/* Static: its first reference is never released. */
static TpsPrincipal anonymous = {
  .refcount = 1, .kind = TPS_PRINCIPAL_ANONYMOUS, .name = anonymous_name, .tenant = anonymous_tenant
};

TpsPrincipal *
tps_principal_new (TpsPrincipalKind kind, const gchar *name, const gchar *tenant)
{
  TpsPrincipal *principal = g_new0 (TpsPrincipal, 1);

  tps_refcount_init (&principal->refcount);
  principal->kind = kind;
  principal->name = g_strdup (name);
  if (tenant == NULL)
    tenant = kind == TPS_PRINCIPAL_ANONYMOUS ? TPS_ANONYMOUS_TENANT : TPS_DEFAULT_TENANT;
  principal->tenant = g_strdup (tenant);
  return principal;
}

TpsPrincipal *
tps_principal_ref (const TpsPrincipal *principal)
{
  TpsPrincipal *counted = (TpsPrincipal *) (gsize) principal;

  tps_refcount_inc (&counted->refcount);
  return counted;
}

void
tps_principal_unref (TpsPrincipal *principal)
{
  if (!tps_refcount_dec (&principal->refcount))
    return;
  g_free (principal->name);
  g_free (principal->tenant);
  g_free (principal);
}

const TpsPrincipal *
tps_principal_get_anonymous (void)
{
  return &anonymous;
}

TpsPrincipalKind
tps_principal_get_kind (const TpsPrincipal *principal)
{
  return principal->kind;
}

const gchar *
tps_principal_get_name (const TpsPrincipal *principal)
{
  return principal->name;
}

const gchar *
tps_principal_get_tenant (const TpsPrincipal *principal)
{
  return principal->tenant;
}

const gchar *
tps_principal_kind_to_string (TpsPrincipalKind kind)
{
  static const gchar *const names[] = { "anonymous", "uid", "certificate", "token" };

  return names[kind];
}
