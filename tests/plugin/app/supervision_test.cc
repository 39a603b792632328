// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests notifications to a service manager, without a real manager, server or clock.

#include "plugin/app/supervision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using testing::ElementsAre;

constexpr gint64 kMs = 1000000;

class SupervisionTest : public testing::Test
{
protected:
  void
  Begin (gint64 watchdog_ns = 0)
  {
    static const TpsSupervisionOps ops = { Send, CheckThreads, GetDurability };
    tps_supervision_init (&supervision_, &ops, this, "127.0.0.1:9090", watchdog_ns);
  }
  // Runs four turns per second for `ms` milliseconds, and returns the messages that they sent.
  std::vector<std::string>
  Turn (int ms)
  {
    sent_.clear ();
    for (int at = 0; at < ms; at += 250)
      {
        tps_supervision_turn (&supervision_, now_ns_);
        now_ns_ += 250 * kMs;
      }
    return sent_;
  }

  TpsSupervision supervision_;
  gint64 now_ns_ = 5000 * kMs;
  std::vector<std::string> sent_;
  bool takes_ = true;     // the manager accepts messages
  std::string missing_;   // the name of the stuck thread; "" = none
  bool has_data_ = false; // there is a data directory
  TpsDurableStatus status_ = {};

private:
  static gboolean
  Send (gpointer data, const gchar *message)
  {
    auto *self = static_cast<SupervisionTest *> (data);
    if (self->takes_)
      self->sent_.push_back (message);
    return self->takes_;
  }
  static gboolean
  CheckThreads (gpointer data, gint64 patience_ns, gchar **missing)
  {
    auto *self = static_cast<SupervisionTest *> (data);
    EXPECT_EQ (patience_ns, self->supervision_.watchdog_ns / 8);
    if (self->missing_.empty ())
      return TRUE;
    *missing = g_strdup (self->missing_.c_str ());
    return FALSE;
  }
  static gboolean
  GetDurability (gpointer data, TpsDurableStatus *status)
  {
    auto *self = static_cast<SupervisionTest *> (data);
    if (self->has_data_)
      *status = self->status_;
    return self->has_data_;
  }
};

TEST_F (SupervisionTest, IsReadyWhenTheLogHasBeenApplied)
{
  Begin ();
  has_data_ = true;
  status_ = { TPS_DURABLE_RECOVERING, 10, 100, 0, 0, -1 };
  EXPECT_THAT (Turn (1000), ElementsAre ("STATUS=Recovering: LSN 10 of 100\n"
                                         "EXTEND_TIMEOUT_USEC=30000000"));
  status_.lsn = 60;
  status_.remaining_ms = 4000;
  EXPECT_THAT (Turn (1000), ElementsAre ("STATUS=Recovering: LSN 60 of 100, about 5 s left\n"
                                         "EXTEND_TIMEOUT_USEC=30000000"));
  status_.phase = TPS_DURABLE_LIVE;
  EXPECT_THAT (Turn (1000), ElementsAre ("READY=1\nSTATUS=Serving on 127.0.0.1:9090"));
}

TEST_F (SupervisionTest, IsNeverReadyWhenTheLogCannotBeApplied)
{
  Begin (1000 * kMs);
  has_data_ = true;
  status_.phase = TPS_DURABLE_FAILED;
  EXPECT_THAT (Turn (5000), ElementsAre ());
}

TEST_F (SupervisionTest, RepeatsAMessageThatTheManagerDidNotAccept)
{
  Begin ();
  takes_ = false;
  EXPECT_THAT (Turn (1000), ElementsAre ());
  takes_ = true;
  EXPECT_THAT (Turn (1000), ElementsAre ("READY=1\nSTATUS=Serving on 127.0.0.1:9090"));
}

TEST_F (SupervisionTest, ReportsAFullOrFailedDisk)
{
  Begin ();
  has_data_ = true;
  status_.phase = TPS_DURABLE_LIVE;
  Turn (250);
  status_ = { .phase = TPS_DURABLE_FULL, .reason = "no room; make room" };
  EXPECT_THAT (Turn (1000), ElementsAre ("STATUS=Serving on 127.0.0.1:9090: changes are refused: "
                                         "no room; make room"));
  strcpy (status_.reason, "no descriptors; raise ulimit -n");
  EXPECT_THAT (Turn (1000), ElementsAre ("STATUS=Serving on 127.0.0.1:9090: changes are refused: "
                                         "no descriptors; raise ulimit -n"));
  status_ = { .phase = TPS_DURABLE_LIVE };
  EXPECT_THAT (Turn (1000), ElementsAre ("STATUS=Serving on 127.0.0.1:9090"));
}

TEST_F (SupervisionTest, BeatsFourTimesInTheTimeOfTheWatchdog)
{
  Begin (4000 * kMs);
  EXPECT_THAT (Turn (250), ElementsAre ("READY=1\nSTATUS=Serving on 127.0.0.1:9090", "WATCHDOG=1"));
  EXPECT_THAT (Turn (3750), ElementsAre ("WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"));
}

TEST_F (SupervisionTest, DoesNotBeatWhileAThreadStandsStill)
{
  Begin (1000 * kMs);
  Turn (1000);
  missing_ = "I/O thread 3";
  EXPECT_THAT (Turn (5000), ElementsAre ());
  missing_ = "";
  EXPECT_THAT (Turn (250), ElementsAre ("WATCHDOG=1"));
}

TEST_F (SupervisionTest, TellsOfAReloadAndItsEnd)
{
  Begin ();
  Turn (250);
  sent_.clear ();
  tps_supervision_begin_reload (&supervision_, 1234567891);
  EXPECT_THAT (sent_, ElementsAre ("RELOADING=1\nMONOTONIC_USEC=1234567"));
  sent_.clear ();
  tps_supervision_end_reload (&supervision_);
  EXPECT_THAT (sent_, ElementsAre ("READY=1\nSTATUS=Serving on 127.0.0.1:9090"));

  // If the manager does not accept the end of a reload, the end is sent again later.
  tps_supervision_begin_reload (&supervision_, 0);
  takes_ = false;
  tps_supervision_end_reload (&supervision_);
  takes_ = true;
  EXPECT_THAT (Turn (1000), ElementsAre ("READY=1\nSTATUS=Serving on 127.0.0.1:9090"));
}

TEST_F (SupervisionTest, RepeatsTheBeginOfAReloadBeforeItsEnd)
{
  Begin ();
  Turn (250);
  sent_.clear ();
  takes_ = false;
  tps_supervision_begin_reload (&supervision_, 1234567891);
  takes_ = true;
  tps_supervision_end_reload (&supervision_);
  EXPECT_THAT (sent_, ElementsAre ("RELOADING=1\nMONOTONIC_USEC=1234567",
                                   "READY=1\nSTATUS=Serving on 127.0.0.1:9090"));

  takes_ = false;
  tps_supervision_begin_reload (&supervision_, 2000000000);
  tps_supervision_end_reload (&supervision_);
  Turn (1000);
  tps_supervision_begin_reload (&supervision_, 3000000000); // before the first one was told
  tps_supervision_end_reload (&supervision_);
  takes_ = true;
  EXPECT_THAT (Turn (1000), ElementsAre ("RELOADING=1\nMONOTONIC_USEC=3000000",
                                         "READY=1\nSTATUS=Serving on 127.0.0.1:9090"));
}

TEST_F (SupervisionTest, ReloadsSilentlyBeforeItIsReady)
{
  Begin ();
  has_data_ = true;
  status_ = { TPS_DURABLE_RECOVERING, 1, 2, 0, 0, -1 };
  Turn (250);
  sent_.clear ();
  tps_supervision_begin_reload (&supervision_, 0);
  tps_supervision_end_reload (&supervision_);
  EXPECT_THAT (sent_, ElementsAre ());
}

TEST_F (SupervisionTest, ReportsItsStopOnceAndNothingAfterwards)
{
  Begin (1000 * kMs);
  Turn (250);
  sent_.clear ();
  takes_ = false;
  tps_supervision_stop (&supervision_);
  takes_ = true;
  tps_supervision_stop (&supervision_);
  tps_supervision_stop (&supervision_);
  EXPECT_THAT (sent_, ElementsAre ("STOPPING=1\nSTATUS=Answering in-flight calls"));
  EXPECT_THAT (Turn (5000), ElementsAre ());
}

TEST (SupervisionWatchdog, IsUsedOnlyIfItIsForThisProcess)
{
  EXPECT_EQ (tps_supervision_parse_watchdog ("3000000", nullptr, 42), 3000 * kMs);
  EXPECT_EQ (tps_supervision_parse_watchdog ("3000000", "42", 42), 3000 * kMs);
  EXPECT_EQ (tps_supervision_parse_watchdog ("3000000", "43", 42), 0);
  EXPECT_EQ (tps_supervision_parse_watchdog ("3000000", "x", 42), 0);
  EXPECT_EQ (tps_supervision_parse_watchdog (nullptr, nullptr, 42), 0);
  EXPECT_EQ (tps_supervision_parse_watchdog ("0", nullptr, 42), 0);
  EXPECT_EQ (tps_supervision_parse_watchdog ("soon", nullptr, 42), 0);
  EXPECT_EQ (tps_supervision_parse_watchdog ("99999999999999999999", nullptr, 42), 0);
}

} // namespace
