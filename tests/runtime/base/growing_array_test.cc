/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <fstream>

#include "runtime/base/error.h"
#include "runtime/base/growing_array.h"

namespace {

struct Elem
{
  guint64 number, zero[31];
};

TEST (GrowingArray, KeepsItsElementsAndAddsZeros)
{
  gpointer elems = nullptr;
  guint n = 0;

  for (guint64 i = 0; i < 1000; i++)
    {
      auto *elem = static_cast<Elem *> (tps_growing_array_add (&elems, &n, sizeof (Elem), nullptr));

      ASSERT_NE (elem, nullptr);
      ASSERT_EQ (n, i + 1);
      ASSERT_EQ (elem->number, 0u);
      ASSERT_EQ (elem->zero[30], 0u);
      elem->number = i;
      elem->zero[30] = i;
    }
  for (guint64 i = 0; i < 1000; i++)
    ASSERT_EQ (static_cast<Elem *> (elems)[i].number, i);
  g_free (elems);
}

TEST (GrowingArray, RoomIsDoubledAndKept)
{
  gpointer elems = nullptr;
  guint n_room = 0;

  ASSERT_TRUE (tps_growing_array_make_room (&elems, &n_room, 0, sizeof (Elem), nullptr));
  EXPECT_EQ (n_room, 0u);
  for (guint n : { 1u, 4u, 5u, 3u, 9u, 100u })
    {
      guint n_before = n_room;

      ASSERT_TRUE (tps_growing_array_make_room (&elems, &n_room, n, sizeof (Elem), nullptr));
      ASSERT_GE (n_room, n);
      ASSERT_TRUE (n_room == n_before || n_room < 2 * MAX (n, 4)) << n_room;
      for (guint i = 0; i < n_before; i++)
        ASSERT_EQ (static_cast<Elem *> (elems)[i].number, i);
      for (guint i = 0; i < n_room; i++)
        static_cast<Elem *> (elems)[i].number = i;
    }
  EXPECT_EQ (n_room, 128u);
  g_free (elems);
}

TEST (GrowingArray, BytesKeepTheirContents)
{
  GByteArray *bytes = g_byte_array_new ();

  for (guint n_bytes : { 10u, 1000u, 100000u, 50u, 5000000u, 0u, 70000u })
    {
      guint n_before = bytes->len;

      for (guint i = 0; i < n_before; i++)
        bytes->data[i] = static_cast<guint8> (i % 251);
      ASSERT_TRUE (tps_byte_array_try_set_size (&bytes, n_bytes));
      ASSERT_EQ (bytes->len, n_bytes);
      for (guint i = 0; i < std::min (n_before, n_bytes); i++)
        ASSERT_EQ (bytes->data[i], i % 251);
    }
  g_byte_array_unref (bytes);
}

/* Sanitizers reserve more address space than there is memory. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void
limit_address_space (rlim_t n_more)
{
  std::ifstream statm ("/proc/self/statm");
  rlim_t n_pages = 0;

  statm >> n_pages;
  struct rlimit limit = { n_pages * 4096 + n_more, RLIM_INFINITY };
  ASSERT_EQ (setrlimit (RLIMIT_AS, &limit), 0);
}

/* Runs in a child process. The exit status is 0 if every call behaves as documented. */
[[noreturn]] void
run_out_of_memory ()
{
  gpointer elems = nullptr, room = nullptr;
  guint n = 0, n_room = 0;
  GError *error = nullptr;
  GByteArray *bytes = g_byte_array_new ();

  limit_address_space (32 << 20);
  while (tps_growing_array_add (&elems, &n, sizeof (Elem), &error) != nullptr)
    static_cast<Elem *> (elems)[n - 1].number = n;
  if (n < 1000 || static_cast<Elem *> (elems)[n - 1].number != n
      || !g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    exit (1);
  g_byte_array_set_size (bytes, 5);
  if (tps_byte_array_try_set_size (&bytes, 64 << 20) || bytes->len != 5)
    exit (2);
  g_clear_error (&error);
  if (tps_growing_array_make_room (&room, &n_room, 4, sizeof (Elem), &error) != TRUE
      || tps_growing_array_make_room (&room, &n_room, 1 << 20, sizeof (Elem), &error) || n_room != 4
      || !g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    exit (3);
  exit (0);
}

TEST (GrowingArrayDeathTest, WithoutMemoryItFailsAndStaysAsItIs)
{
  GTEST_FLAG_SET (death_test_style, "threadsafe");
  EXPECT_EXIT (run_out_of_memory (), testing::ExitedWithCode (0), "");
}

#endif

} // namespace
