/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Results of lookups in a place that the caller provides, on a strict fake device and in host
 * memory. Their bits must equal those of results in the store's own memory. In some cases, a result
 * must stay in the store's memory. */

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/device/device_memory.h"
#include "tests/runtime/server/tables/tables.h"
#include "tests/runtime/fake_device/fake_device.h"

using namespace embedding_test;

namespace {

TpsDevice *
find_device (const gchar *name, GError **error)
{
  if (g_str_equal (name, "fake:0") || g_str_equal (name, "fake:1"))
    return tps_fake_device_get (name[5] == '1' ? 1 : 0);
  return tps_device_find (name, error);
}

class DevicePlace : public ::testing::Test
{
protected:
  DevicePlace ()
  {
    place_.device = tps_fake_device_get (0);
    place_.min_bytes = 64;
    place_.reserve = reserve;
    place_.user_data = this;
    request_.place = &place_;
    for (const char *device : { "fake:0", "fake:1", "cpu" })
      EXPECT_EQ (store_.create (Spec (device, kRows, kDim).uniform (-1, 1, 5).on (device)), "");
  }

  ~DevicePlace () override
  {
    EXPECT_EQ (n_held_, 0) << "all reserved memory is released";
  }

  static TpsBuffer *
  reserve (gpointer data, TpsDevice *device, gsize n_bytes)
  {
    auto *self = static_cast<DevicePlace *> (data);
    TpsBuffer *buffer = nullptr;

    if (device == nullptr)
      return self->reserve_on_host (n_bytes);
    self->n_reserved_.push_back (n_bytes);
    if (n_bytes <= self->room_)
      buffer = self->hold (n_bytes);
    if (self->on_reserve_)
      self->on_reserve_ ();
    return buffer;
  }

  TpsBuffer *
  reserve_on_host (gsize n_bytes)
  {
    n_reserved_on_host_.push_back (n_bytes);
    if (n_bytes > on_host_.size ())
      return nullptr;
    std::fill (on_host_.begin (), on_host_.end (), std::nanf (""));
    n_held_++;
    return tps_buffer_new_shared (
        reinterpret_cast<guint8 *> (on_host_.data ()), n_bytes,
        [] (gpointer self) { static_cast<DevicePlace *> (self)->n_held_--; }, this);
  }

  TpsBuffer *
  hold (gsize n_bytes)
  {
    TpsBuffer *memory = place_.device->ops->alloc (place_.device, n_bytes, nullptr);
    auto *held = new Held { this, memory };

    n_held_++;
    return tps_buffer_new_foreign (tps_buffer_get_data (memory), n_bytes, place_.device, release,
                                   held);
  }

  struct Held
  {
    DevicePlace *test;
    TpsBuffer *memory;
  };

  static void
  release (gpointer data)
  {
    auto *held = static_cast<Held *> (data);

    tps_buffer_unref (held->memory);
    held->test->n_held_--;
    delete held;
  }

  struct Result
  {
    bool is_in_place;
    Floats values;
    bool
    operator== (const Result &other) const
    {
      return is_in_place == other.is_in_place && values == other.values;
    }
  };

  Result
  take (TpsTensor *tensor)
  {
    bool is_on_device = tps_device_memory_of_tensor (tensor) != nullptr;
    auto *begin = static_cast<const float *> (tps_tensor_data (tensor));
    Result result = {
      is_on_device || (begin >= on_host_.data () && begin < on_host_.data () + on_host_.size ()), {}
    };
    g_auto (TpsTensor) here = {};

    if (is_on_device)
      EXPECT_TRUE (tps_device_memory_download (&here, tensor, nullptr));
    else
      tps_tensor_move (&here, tensor);
    result.values.resize (static_cast<size_t> (tps_shape_n_elems (&here.shape)));
    if (!result.values.empty ())
      memcpy (result.values.data (), tps_tensor_data (&here), tps_shape_n_bytes (&here.shape));
    tps_tensor_clear (tensor);
    return result;
  }

  std::vector<Result>
  bags (const std::vector<Query> &queries)
  {
    std::vector<TpsBagQuery> views;
    std::vector<TpsTensor> outputs (queries.size ());
    std::vector<Result> results;
    g_autoptr (GError) error = nullptr;

    for (const Query &query : queries)
      views.push_back (query.get ());
    EXPECT_TRUE (tps_table_store_lookup_bags_for (store_.get (), &request_, views.data (),
                                                  static_cast<guint> (views.size ()),
                                                  outputs.data (), &error))
        << error->message;
    for (TpsTensor &output : outputs)
      results.push_back (take (&output));
    return results;
  }

  Result
  rows (const std::string &table, const Ids &ids)
  {
    g_autoptr (GError) error = nullptr;
    TpsTensor rows = {};

    EXPECT_TRUE (tps_table_store_lookup_rows_for (store_.get (), &request_, table.c_str (),
                                                  view (ids), &rows, nullptr, &error))
        << error->message;
    return take (&rows);
  }

  /* Returns the result of the table on the CPU. All tables have the same rows. */
  Floats
  expected (Query query)
  {
    query.table = "cpu";
    return store_.pooled (query);
  }

  static constexpr int64_t kRows = 50;
  static constexpr int32_t kDim = 16;

  Store store_ { 2, Devices { find_device } };
  TpsLookupPlace place_ = {};
  TpsTableLookup request_ = {};
  gsize room_ = G_MAXSIZE;
  std::vector<gsize> n_reserved_, n_reserved_on_host_;
  std::vector<float> on_host_; // the place in host memory
  int n_held_ = 0;
  std::function<void ()> on_reserve_;
};

TEST_F (DevicePlace, ResultsHaveTheSameBits)
{
  std::mt19937_64 random (7);

  for (TpsPooling pooling : { TPS_POOLING_SUM, TPS_POOLING_MEAN })
    for (int round = 0; round < 8; round++)
      {
        Query query = random_query (random, "fake:0", kRows, 30, 10, pooling,
                                    pooling == TPS_POOLING_SUM && round % 2 == 1);
        Floats values = expected (query);
        bool is_there = values.size () * sizeof (float) >= place_.min_bytes;

        EXPECT_EQ (bags ({ query }), (std::vector<Result> { { is_there, values } }));
      }
  Query single { "fake:0", { 7, 1, 7, 49, 0 }, { 0, 1, 2, 3, 4 } };
  EXPECT_EQ (rows ("fake:0", single.indices), (Result { true, expected (single) }));
}

TEST_F (DevicePlace, AllResultsOfACallAreInOneBuffer)
{
  Query three { "fake:0", { 1, 2, 3 }, { 0, 1, 2 } },
      five { "fake:0", { 1, 1, 2, 3, 4 }, { 0, 2 } };

  EXPECT_EQ (bags ({ three, five, three }), (std::vector<Result> { { true, expected (three) },
                                                                   { true, expected (five) },
                                                                   { true, expected (three) } }));
  EXPECT_EQ (n_reserved_, (std::vector<gsize> { (3 + 2 + 3) * kDim * sizeof (float) }));
}

TEST_F (DevicePlace, ResultsOfOtherTablesAreInHostMemory)
{
  Query here { "fake:0", { 1, 2, 3 }, { 0, 1, 2 } }, other = here, host = here;

  other.table = "fake:1";
  host.table = "cpu";
  EXPECT_EQ (bags ({ host, here, other }), (std::vector<Result> { { false, expected (here) },
                                                                  { true, expected (here) },
                                                                  { false, expected (here) } }));
  EXPECT_EQ (n_reserved_, (std::vector<gsize> { 3 * kDim * sizeof (float) }));
  EXPECT_EQ (rows ("fake:1", { 3 }).is_in_place, false);
  EXPECT_EQ (rows ("cpu", { 3 }).is_in_place, false);
  EXPECT_EQ (n_reserved_.size (), 1u);
}

TEST_F (DevicePlace, SmallResultsAreInHostMemory)
{
  Query one { "fake:0", { 1 }, { 0 } }, two { "fake:0", { 1, 2 }, { 0, 1 } };

  place_.min_bytes = 2 * kDim * sizeof (float);
  EXPECT_EQ (bags ({ one, two }),
             (std::vector<Result> { { false, expected (one) }, { true, expected (two) } }));
  EXPECT_EQ (rows ("fake:0", { 1 }).is_in_place, false);
  EXPECT_EQ (bags ({ { "fake:0", {}, {} } }), (std::vector<Result> { { false, {} } }));
}

TEST_F (DevicePlace, WithoutRoomAllResultsAreInHostMemory)
{
  Query query { "fake:0", { 1, 2, 3 }, { 0, 1, 2 } };

  room_ = 3 * kDim * sizeof (float);
  EXPECT_EQ (bags ({ query, query }),
             (std::vector<Result> { { false, expected (query) }, { false, expected (query) } }));
  EXPECT_EQ (bags ({ query }), (std::vector<Result> { { true, expected (query) } }));
  room_--;
  EXPECT_EQ (rows ("fake:0", query.indices), (Result { false, expected (query) }));
}

TEST_F (DevicePlace, WithoutResultsOnTheDeviceThePlaceIsInHostMemory)
{
  Query here { "fake:0", { 1, 2, 3 }, { 0, 1, 2 } }, host { "cpu", { 4, 1, 1, 2 }, { 0, 1, 3 } },
      other { "fake:1", { 5 }, { 0 } };

  on_host_.resize (100 * kDim);
  EXPECT_EQ (bags ({ host, other, host }), (std::vector<Result> { { true, expected (host) },
                                                                  { false, expected (other) },
                                                                  { true, expected (host) } }));
  EXPECT_EQ (n_reserved_on_host_, (std::vector<gsize> { (3 + 3) * kDim * sizeof (float) }));
  EXPECT_EQ (n_reserved_.size (), 0u);
  EXPECT_EQ (bags ({ host, here }),
             (std::vector<Result> { { false, expected (host) }, { true, expected (here) } }));
  room_ = 0;
  EXPECT_EQ (bags ({ host, here }),
             (std::vector<Result> { { true, expected (host) }, { false, expected (here) } }));
  Query single { "cpu", { 7, 1, 7, 49, 0 }, { 0, 1, 2, 3, 4 } };
  EXPECT_EQ (rows ("cpu", single.indices), (Result { true, expected (single) }));
  on_host_.resize (5 * kDim - 1);
  EXPECT_EQ (rows ("cpu", single.indices), (Result { false, expected (single) }));
}

/* The lookup needs more than one pass of device_lookup.c: 300,000 bags. */
TEST_F (DevicePlace, LargeResultsAreWrittenInSeveralPasses)
{
  std::mt19937_64 random (8);
  Query query { "fake:0", {}, {} };

  for (int64_t bag = 0; bag < 300000; bag++)
    {
      query.offsets.push_back (static_cast<int64_t> (query.indices.size ()));
      for (uint64_t i = random () % 8; i > 0; i--)
        query.indices.push_back (static_cast<int64_t> (random () % kRows));
    }
  Floats values = expected (query);
  EXPECT_TRUE (bags ({ query }) == (std::vector<Result> { { true, values } }));
}

TEST_F (DevicePlace, ATableThatIsDroppedMeanwhileIsStillRead)
{
  Query query { "fake:0", { 1, 2, 3 }, { 0, 1, 2 } };
  Floats values = expected (query);

  on_reserve_ = [&] { EXPECT_EQ (store_.drop ("fake:0"), ""); };
  EXPECT_EQ (bags ({ query }), (std::vector<Result> { { true, values } }));
}

TEST_F (DevicePlace, ALostDeviceFailsTheLookupAndReleasesThePlace)
{
  Query query { "fake:0", { 1, 2, 3 }, { 0, 1, 2 } };
  TpsBagQuery asked = query.get ();
  g_autoptr (GError) error = nullptr;
  TpsTensor output = {};

  on_reserve_ = [&] { tps_fake_device_set_lost (place_.device, TRUE); };
  EXPECT_FALSE (
      tps_table_store_lookup_bags_for (store_.get (), &request_, &asked, 1, &output, &error));
  tps_fake_device_set_lost (place_.device, FALSE);
  EXPECT_EQ (error->code, TPS_ERROR_DEVICE_LOST);
  EXPECT_EQ (output.buffer, nullptr);
  EXPECT_EQ (n_held_, 0);
}

} // namespace
