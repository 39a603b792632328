// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/parameter_server/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace {

const char *const kVariables[] = { "RANK",
                                   "WORLD_SIZE",
                                   "MASTER_ADDR",
                                   "MASTER_PORT",
                                   "SLURM_PROCID",
                                   "SLURM_NTASKS",
                                   "OMPI_COMM_WORLD_RANK",
                                   "OMPI_COMM_WORLD_SIZE",
                                   "PMIX_RANK",
                                   "PMI_RANK",
                                   "PMI_SIZE",
                                   "LOCAL_RANK",
                                   "OMPI_COMM_WORLD_LOCAL_RANK",
                                   "MPI_LOCALRANKID",
                                   "SLURM_LOCALID",
                                   "BUILD_WORKING_DIRECTORY" };

class Options : public testing::Test
{
protected:
  void
  SetUp () override
  {
    for (const char *name : kVariables)
      unsetenv (name);
  }
  void
  TearDown () override
  {
    tps_bench_options_clear (&options_);
    g_clear_error (&error_);
  }

  bool
  Parse (std::vector<std::string> arguments)
  {
    std::vector<gchar *> argv = { const_cast<gchar *> ("parameter_server") };
    for (std::string &argument : arguments)
      argv.push_back (argument.data ());
    return tps_bench_options_parse (&options_, static_cast<gint> (argv.size ()), argv.data (),
                                    &error_);
  }

  void
  ExpectBad (std::vector<std::string> arguments, const std::string &part)
  {
    EXPECT_FALSE (Parse (arguments));
    ASSERT_NE (error_, nullptr);
    EXPECT_NE (std::string (error_->message).find (part), std::string::npos) << error_->message;
  }

  TpsBenchOptions options_ = {};
  GError *error_ = nullptr;
};

TEST_F (Options, WithoutFlagsAreTheMainJob)
{
  ASSERT_TRUE (Parse ({}));
  EXPECT_EQ (options_.ntrainer, 2);
  EXPECT_EQ (options_.nserver, 1);
  EXPECT_STREQ (options_.server, "AverageParameterServer");
  EXPECT_STREQ (options_.ddp_hook, "rpc_hook");
  EXPECT_STREQ (options_.model, "DummyModelSparse");
  EXPECT_STREQ (options_.world.transport, "unix");
  EXPECT_STREQ (tps_world_get_transport_title (&options_.world), "Unix sockets and shared memory");
  EXPECT_EQ (options_.batch_size, 32);
  EXPECT_EQ (options_.world.rank, -1);
  EXPECT_EQ (tps_world_get_size (&options_.world), 4u);
}

TEST_F (Options, BucketsTravelInPiecesBetweenHostsOnly)
{
  for (const char *transport : { "--transport=unix", "--transport=tcp" })
    {
      ASSERT_TRUE (Parse ({ transport }));
      EXPECT_EQ (options_.piece_kib, 0) << transport;
      tps_bench_options_clear (&options_);
    }
  for (const char *master : { "127.0.0.1", "::1" })
    {
      ASSERT_TRUE (Parse ({ "--rank=1", "--master-addr", master }));
      EXPECT_EQ (options_.piece_kib, 0) << master;
      tps_bench_options_clear (&options_);
    }
  for (const char *master : { "10.0.0.1", "fd99::4", "host3" })
    {
      ASSERT_TRUE (Parse ({ "--rank=1", "--master-addr", master }));
      EXPECT_EQ (options_.piece_kib, 128) << master;
      tps_bench_options_clear (&options_);
    }
  ASSERT_TRUE (Parse ({ "--rank=1", "--piece-kib=64" }));
  EXPECT_EQ (options_.piece_kib, 64);
}

TEST_F (Options, RefuseZeroServersForATrainerThatNeedsThem)
{
  ExpectBad ({ "--nserver=0" }, "sends gradients to servers");
}
TEST_F (Options, RefuseUnknownWords)
{
  ExpectBad ({ "--transport=pigeon" }, "expected unix or tcp");
}
TEST_F (Options, RefuseCudaTrainersWithTheReasonForTheMissingDevice)
{
  ExpectBad ({ "--ncudatrainer=1" },
             "--ncudatrainer=1: no CUDA device; use --ntrainer (cuda: none: turned off)");
}
TEST_F (Options, RefuseCudaRolesOnlyWhereTheyAre)
{
  const std::vector<std::string> world = { "--ncudatrainer=2", "--nserver=1", "--ncudaserver=1" };

  for (const auto &[rank, refusal] : { std::pair<int, const char *> (0, "--ncudatrainer=2"),
                                       { 1, "--ncudatrainer=2" },
                                       { 2, "" },
                                       { 3, "--ncudaserver=1" },
                                       { 4, "" } })
    {
      std::vector<std::string> arguments = world;

      arguments.push_back ("--rank=" + std::to_string (rank));
      if (*refusal == '\0')
        EXPECT_TRUE (Parse (arguments)) << rank;
      else
        ExpectBad (arguments, refusal);
      tps_bench_options_clear (&options_);
      g_clear_error (&error_);
    }
}
TEST_F (Options, RolesOfOneKindReplaceTheDefaultOnesOfTheOther)
{
  EXPECT_TRUE (Parse ({ "--ncudatrainer=3", "--ncudaserver=1", "--rank=4" }));
  EXPECT_EQ (tps_world_get_size (&options_.world), 5u);
  EXPECT_EQ (options_.ntrainer, 0);
  EXPECT_EQ (options_.nserver, 0);
}
TEST_F (Options, EachServerNeedsEquallyManyTrainersOfItsKind)
{
  ExpectBad ({ "--ntrainer=1", "--ncudatrainer=3", "--nserver=1", "--ncudaserver=1",
               "--partition=trainers", "--rank=6" },
             "as many CPU trainers for each CPU server as CUDA trainers for each CUDA server");
  tps_bench_options_clear (&options_);
  g_clear_error (&error_);
  EXPECT_TRUE (Parse ({ "--ntrainer=2", "--ncudatrainer=4", "--nserver=1", "--ncudaserver=2",
                        "--partition=trainers", "--rank=9" }));
}
TEST_F (Options, TheLocalRankIsTheLaunchersOrTheRank)
{
  EXPECT_TRUE (Parse ({ "--rank=2" }));
  EXPECT_EQ (tps_world_get_local_rank (&options_.world), 2u);
  tps_bench_options_clear (&options_);
  setenv ("RANK", "2", 1);
  setenv ("WORLD_SIZE", "4", 1);
  setenv ("LOCAL_RANK", "1", 1);
  EXPECT_TRUE (Parse ({}));
  EXPECT_EQ (tps_world_get_local_rank (&options_.world), 1u);
  tps_bench_options_clear (&options_);
  /* The roles are started by hand in a shell under such a launcher. */
  EXPECT_TRUE (Parse ({ "--rank=3" }));
  EXPECT_EQ (tps_world_get_local_rank (&options_.world), 3u);
}
TEST_F (Options, RefuseCudaServersWithTheReasonForTheMissingDevice)
{
  ExpectBad ({ "--ncudaserver=2" },
             "--ncudaserver=2: no CUDA device; use --nserver (cuda: none: turned off)");
}
TEST_F (Options, RefuseAWorldSizeThatDoesNotAddUp)
{
  ExpectBad ({ "--world-size=9" }, "make 4");
}
TEST_F (Options, RefuseARankOutsideTheWorld)
{
  ExpectBad ({ "--rank=4" }, "0 to 3");
}

TEST_F (Options, AllreduceNeedsNoServer)
{
  ASSERT_TRUE (Parse ({ "--nserver=0", "--ddp-hook=allreduce_hook" }));
}

TEST_F (Options, LaunchAllInsideASlurmJobOfOneTask)
{
  setenv ("SLURM_PROCID", "0", 1);
  setenv ("SLURM_NTASKS", "1", 1);
  ASSERT_TRUE (Parse ({}));
  EXPECT_EQ (options_.world.rank, -1);
}

TEST_F (Options, FlagsWinOverTheEnvironment)
{
  setenv ("RANK", "1", 1);
  setenv ("WORLD_SIZE", "4", 1);
  ASSERT_TRUE (Parse ({ "--rank=2", "--master-addr=here" }));
  EXPECT_EQ (options_.world.rank, 2);
  EXPECT_STREQ (options_.world.master_addr, "here");
}

class Names : public Options
{
protected:
  std::string
  Check (const std::string &flag)
  {
    EXPECT_TRUE (Parse ({ flag }));
    if (tps_bench_check_names (&options_, "DummyData", "DummyModel", &error_))
      return "";
    return error_->message;
  }
};

TEST_F (Names, OfTheDefaultsAreKnown)
{
  EXPECT_EQ (Check ("--seed=1"), "");
}

} // namespace
