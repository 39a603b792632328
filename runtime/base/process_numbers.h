/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Numbers of the process, under the names that all exporters of Prometheus use. */

#pragma once

#include "runtime/base/counters.h"

G_BEGIN_DECLS

/* Adds the numbers to `reading`: a TpsCollect, whose user data are not used. Reads files of
 * /proc/self, which takes about 20 us. */
void tps_process_numbers_collect (TpsReading *reading, gpointer unused);

G_END_DECLS
