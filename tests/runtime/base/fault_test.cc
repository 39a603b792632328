/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/fault.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/runtime/base/trace_capture.h"

namespace {

TpsFaultPlan *
plan_of (std::vector<const gchar *> specs)
{
  g_autoptr (GError) error = nullptr;

  specs.push_back (nullptr);
  TpsFaultPlan *plan = tps_fault_plan_new (specs.data (), &error);
  EXPECT_NE (plan, nullptr) << error->message;
  return plan;
}

/* Returns one letter per draw: the action that the plan chose. */
std::string
draw (TpsFaultPlan *plan, int n, TpsFaultPoint point = TPS_FAULT_AT_REQUEST,
      const char *name = "EmbeddingTable:lookup_rows")
{
  std::string drawn;

  for (int i = 0; i < n; i++)
    drawn += "-dlucfFk"[tps_fault_plan_draw (plan, point, name).action];
  return drawn;
}

} // namespace

/* Must stay the first test, because the rate limit of an event suppresses its later records. */
TEST (Fault, IsLogged)
{
  thriftps_test::TraceCapture log;
  g_autoptr (TpsFaultPlan) plan = plan_of ({ "request:drop,on=push,after=1" });

  EXPECT_EQ (draw (plan, 2, TPS_FAULT_AT_REQUEST, "push"), "-d");
  ASSERT_EQ (log.Lines ().size (), 1u);
  EXPECT_EQ (log.Lines ()[0], "warning fault_injected point=request action=drop name=push");
}

TEST (Fault, FollowsItsRules)
{
  g_autoptr (TpsFaultPlan) plan = plan_of (
      { "request:drop,after=2,count=3", "request:disconnect,on=push,count=1", "write:fail" });

  EXPECT_EQ (draw (plan, 7), "--ddd--");
  EXPECT_EQ (draw (plan, 2, TPS_FAULT_AT_REQUEST, "push"), "c-");
  EXPECT_EQ (draw (plan, 2, TPS_FAULT_AT_WRITE, nullptr), "ff");
  EXPECT_EQ (draw (plan, 2, TPS_FAULT_AT_READ, nullptr), "--");
}

TEST (Fault, FollowsItsSeed)
{
  g_autoptr (TpsFaultPlan) plan = plan_of ({ "request:drop,p=0.5", "seed=7" });
  g_autoptr (TpsFaultPlan) same = plan_of ({ "seed=7", "request:drop,p=0.5" });
  g_autoptr (TpsFaultPlan) other = plan_of ({ "seed=8", "request:drop,p=0.5" });
  std::string drawn = draw (plan, 1000);

  EXPECT_EQ (drawn, draw (same, 1000));
  EXPECT_NE (drawn, draw (other, 1000));
  EXPECT_NEAR (std::count (drawn.begin (), drawn.end (), 'd'), 500, 100);
}

TEST (Fault, RefusesBadSpecifications)
{
  for (const char *spec : { "",
                            "drop",
                            "request",
                            "request:",
                            "request:fly",
                            "moon:drop",
                            "reply:duplicate",
                            "read:full",
                            "synced:fail",
                            "reply:delay",
                            "reply:delay=",
                            "reply:delay=x",
                            "reply:delay=60001",
                            "request:drop=1",
                            "request:drop,p=0",
                            "request:drop,p=1.1",
                            "request:drop,p=",
                            "request:drop,count=0",
                            "request:drop,after=-1",
                            "request:drop,on",
                            "request:drop,when=1",
                            "request:drop,",
                            "request:drop,on=a,on=b",
                            "seed=",
                            "seed=x",
                            "requests:drop",
                            "req:drop" })
    {
      g_autoptr (GError) error = nullptr;

      EXPECT_FALSE (tps_fault_check (spec, &error)) << spec;
      EXPECT_NE (std::string (error->message).find (std::string ("\"") + spec), std::string::npos);
    }
}
