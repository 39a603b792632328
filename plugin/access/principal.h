/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A principal, the name of a caller (thriftps/access.h). It is immutable and
 * reference-counted. Thread: any.
 */

#pragma once

#include <thriftps/access.h>

G_BEGIN_DECLS

/* The tenants of principals without a tenant from a rule or a token. Anonymous peers have a
 * separate tenant, so that many of them cannot use up the limits of other principals. */
#define TPS_DEFAULT_TENANT "default"
#define TPS_ANONYMOUS_TENANT "anonymous"

/* Creates a principal, which the caller owns. Copies `name` and `tenant` (NULL =
 * TPS_ANONYMOUS_TENANT or TPS_DEFAULT_TENANT, depending on `kind`). */
TpsPrincipal *tps_principal_new (TpsPrincipalKind kind, const gchar *name, const gchar *tenant);
TpsPrincipal *tps_principal_ref (const TpsPrincipal *principal);
void tps_principal_unref (TpsPrincipal *principal);

/* Returns the anonymous principal of TPS_ANONYMOUS_TENANT; static. */
const TpsPrincipal *tps_principal_get_anonymous (void);

/* Returns "anonymous", "uid", "certificate" or "token"; static. */
const gchar *tps_principal_kind_to_string (TpsPrincipalKind kind);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPrincipal, tps_principal_unref)

G_END_DECLS
