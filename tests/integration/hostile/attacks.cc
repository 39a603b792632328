/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/integration/hostile/attacks.h"

#include "tests/integration/hostile/pieces.h"

namespace hostile {

const std::vector<Attack> &
attacks ()
{
  static const std::vector<Attack> all = [] {
    std::vector<Attack> list;

    for (const std::vector<Attack> &part :
         { message_attacks (), value_attacks (), structure_attacks () })
      list.insert (list.end (), part.begin (), part.end ());
    return list;
  }();

  return all;
}

} // namespace hostile
