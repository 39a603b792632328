/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Levels of the log by area, as operators write them: "info,net=debug,log=warning".
 *
 * An item without a name is the level of all areas to which no other item applies. If there is no
 * such item, this level is "info". The area of an event is the folder of the source file that
 * declares the event. An item applies to all areas whose path contains its name: "net" to
 * plugin/net and plugin/net/tls. If several items apply, the item that names the innermost folder
 * takes precedence.
 *
 * Levels are immutable. Thread: any.
 */

#pragma once

#include "runtime/base/trace.h"

G_BEGIN_DECLS

#define TPS_TRACE_MAX_AREAS 32      /* items with a name */
#define TPS_TRACE_MAX_AREA_BYTES 32 /* of a name */
#define TPS_TRACE_MAX_LEVELS_BYTES 2048

typedef struct TpsTraceLevels TpsTraceLevels;

/* Parses levels, which the caller owns. Errors: INVALID_ARGUMENT, which names the item: an unknown
 * level; a name that is empty, too long, given twice, or has characters other than a-z, 0-9 and _;
 * too many names; a text of more than TPS_TRACE_MAX_LEVELS_BYTES. */
TpsTraceLevels *tps_trace_levels_parse (const gchar *text, GError **error);

/* Returns one level for all areas, in an object that the caller owns. */
TpsTraceLevels *tps_trace_levels_new (TpsTraceLevel level);

/* Frees levels, which may be NULL. */
void tps_trace_levels_free (TpsTraceLevels *levels);

/* Returns the level of the area of `file`, a path with slashes. */
TpsTraceLevel tps_trace_levels_find (const TpsTraceLevels *levels, const gchar *file);

/* Returns the highest level of any area. More detailed events are disabled in all areas. */
TpsTraceLevel tps_trace_levels_get_max (const TpsTraceLevels *levels);

/* Returns the levels in the syntax of tps_trace_levels_parse(). The caller owns the text. */
gchar *tps_trace_levels_to_text (const TpsTraceLevels *levels);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTraceLevels, tps_trace_levels_free)

G_END_DECLS
