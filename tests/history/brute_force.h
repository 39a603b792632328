/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Returns the same verdict as check_history() by an exhaustive search of the steps that the server
 * of check.h may take. The search is for histories of about ten operations. It shares only the
 * reader of the file with the checker. */

#pragma once

#include "tests/history/history.h"

namespace history {

/* Returns true if the history is valid. */
bool is_valid_by_search (const History &history);

} // namespace history
