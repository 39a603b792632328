/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Labels of a series as text, in a form that Prometheus' text format and OpenMetrics share:
 *
 *   method="EmbeddingTable:lookup_bags",code="NOT_FOUND"
 *
 * Backslashes, quotes and ends of lines are escaped. Invalid UTF-8 is replaced, and a value that is
 * longer than TPS_LABEL_MAX_BYTES is truncated. Equal values have equal text, so the text
 * identifies a series of its family. Internal to runtime/base.
 */

#pragma once

#include "runtime/base/counters.h"

G_BEGIN_DECLS

/* Returns `value` truncated and as valid UTF-8, but not escaped. The caller owns the text. */
gchar *tps_label_dup_value (const gchar *value);

/* Returns the labels of `family` with `values` [TPS_MAX_LABELS]; a value of NULL becomes "". The
 * caller owns the text. */
gchar *tps_label_text_new (const TpsFamily *family, const gchar *const *values);

G_END_DECLS
