/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/tracing/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace thriftps {
namespace {

const std::string TRACE = "0af7651916cd43dd8448eb211c80319c";
const std::string PARENT = "b7ad6b7169203331";
const std::string GOOD = "00-" + TRACE + "-" + PARENT + "-01";

bool
parses (const std::string &text)
{
  TpsTraceContext context = {};

  return tps_trace_context_parse (text.c_str (), &context);
}

TEST (TraceContext, isReadAndWritten)
{
  TpsTraceContext context = {};
  gchar text[TPS_TRACEPARENT_TEXT];
  gchar id[TPS_TRACE_ID_TEXT];

  ASSERT_TRUE (tps_trace_context_parse (GOOD.c_str (), &context));
  EXPECT_TRUE (context.is_sampled);
  EXPECT_EQ (context.trace_id[0], 0x0a);
  EXPECT_EQ (context.parent_id[7], 0x31);
  tps_trace_context_format (&context, text);
  EXPECT_EQ (text, GOOD);
  tps_trace_id_format (context.trace_id, id);
  EXPECT_EQ (id, TRACE);
  ASSERT_TRUE (tps_trace_context_parse (("00-" + TRACE + "-" + PARENT + "-fe").c_str (), &context));
  EXPECT_FALSE (context.is_sampled);
}

TEST (TraceContext, laterVersionsAreReadAsFarAsTheyAreKnown)
{
  EXPECT_TRUE (parses ("01-" + TRACE + "-" + PARENT + "-01"));
  EXPECT_TRUE (parses ("fe-" + TRACE + "-" + PARENT + "-01-what-comes-later"));
  EXPECT_FALSE (parses ("01-" + TRACE + "-" + PARENT + "-01x"));
}

TEST (TraceContext, anythingElseIsNone)
{
  TpsTraceContext context = {};

  EXPECT_FALSE (tps_trace_context_parse (nullptr, &context));
  EXPECT_FALSE (parses (""));
  EXPECT_FALSE (parses (GOOD + "-00"));
  EXPECT_FALSE (parses (" " + GOOD));
  EXPECT_FALSE (parses ("ff-" + TRACE + "-" + PARENT + "-01"));
  EXPECT_FALSE (parses ("00-0AF7651916CD43DD8448EB211C80319C-" + PARENT + "-01"));
  EXPECT_FALSE (parses ("00-" + std::string (32, '0') + "-" + PARENT + "-01"));
  EXPECT_FALSE (parses ("00-" + TRACE + "-" + std::string (16, '0') + "-01"));
  for (size_t i = 0; i < GOOD.size (); i++)
    {
      std::string bad = GOOD;

      EXPECT_FALSE (parses (GOOD.substr (0, i))) << i;
      bad[i] = 'g';
      EXPECT_FALSE (parses (bad)) << i;
    }
}

TEST (TraceContext, tracestatesAreBoundedAndPrintable)
{
  EXPECT_TRUE (tps_tracestate_is_valid ("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"));
  EXPECT_TRUE (tps_tracestate_is_valid (std::string (TPS_TRACESTATE_MAX_BYTES, 'a').c_str ()));
  EXPECT_FALSE (tps_tracestate_is_valid (std::string (TPS_TRACESTATE_MAX_BYTES + 1, 'a').c_str ()));
  EXPECT_FALSE (tps_tracestate_is_valid (""));
  EXPECT_FALSE (tps_tracestate_is_valid ("a=\n"));
  EXPECT_FALSE (tps_tracestate_is_valid ("a=\xc3\xa4"));
}

} // namespace
} // namespace thriftps
