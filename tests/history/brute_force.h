/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The same verdict as check_history(), found by an exhaustive search of the steps that the server
 * of check.h may take. It is for histories of about ten operations. It shares only the reader of
 * the file with the checker. */

#pragma once

#include "tests/history/history.h"

namespace history {

bool is_valid_by_search (const History &history);

} // namespace history
