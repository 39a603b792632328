/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The same verdict as check_history(), found by trying everything that the server of check.h may
 * do. For histories of about ten operations; shares nothing with the checker but the reader of
 * the file. */

#pragma once

#include "tests/history/history.h"

namespace history {

bool is_valid_by_search (const History &history);

} // namespace history
