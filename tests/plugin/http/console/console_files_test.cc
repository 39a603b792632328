// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// The program's table of files must contain all files of the folder, and every reference of the
// page must be in the table.

#include "plugin/http/console/console_files.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <cstring>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr char kFolder[] = "plugin/http/console";

std::vector<TpsConsoleFile>
ListFiles ()
{
  gsize n_files = 0;
  const TpsConsoleFile *files = tps_console_list_files (&n_files);

  return { files, files + n_files };
}

std::string
TextOf (const TpsConsoleFile &file)
{
  return { reinterpret_cast<const char *> (file.bytes), file.n_bytes };
}

bool
IsPartOfThePage (const std::filesystem::path &path)
{
  static const std::set<std::string> extensions = { ".css", ".html", ".js", ".svg" };

  return extensions.count (path.extension ().string ()) > 0;
}

// Returns the URL paths of the files in the folder.
std::set<std::string>
PathsOfFolder ()
{
  std::set<std::string> paths;

  for (const auto &entry : std::filesystem::recursive_directory_iterator (
           kFolder, std::filesystem::directory_options::follow_directory_symlink))
    {
      const auto name = std::filesystem::path (entry).lexically_relative (kFolder).string ();

      if (IsPartOfThePage (entry.path ()))
        paths.insert (name == "index.html" ? "/" : "/console/" + name);
    }
  return paths;
}

// Returns the references of a file as URL paths: `src` and `href` of the page, `import` of scripts,
// `url()` and `@import` of styles.
std::set<std::string>
ReferencesOf (const TpsConsoleFile &file)
{
  static const std::regex reference (
      R"re((?:\b(?:src|href)=|\bfrom\s+|\bimport\s+|\bimport\(|\burl\()["']([^"'#]+)["'])re");
  const std::string text = TextOf (file);
  const std::filesystem::path folder = std::filesystem::path (file.path).parent_path ();
  std::set<std::string> paths;

  for (std::sregex_iterator at (text.begin (), text.end (), reference), end; at != end; ++at)
    paths.insert ((folder / (*at)[1].str ()).lexically_normal ().string ());
  return paths;
}

TEST (ConsoleFiles, AreThoseOfTheFolder)
{
  std::set<std::string> paths;

  for (const TpsConsoleFile &file : ListFiles ())
    {
      const std::string path = file.path;
      const std::string name = path == "/" ? "/index.html" : path.substr (strlen ("/console"));
      std::ifstream source (kFolder + name, std::ios::binary);

      paths.insert (path);
      EXPECT_EQ (std::string (std::istreambuf_iterator<char> (source), {}), TextOf (file)) << path;
    }
  EXPECT_EQ (PathsOfFolder (), paths);
}

TEST (ConsoleFiles, HoldEverythingThatTheyReferTo)
{
  std::set<std::string> reached;
  std::vector<std::string> open = { "/" };

  while (!open.empty ())
    {
      const std::string path = open.back ();
      const TpsConsoleFile *file = tps_console_find_file (path.c_str ());

      open.pop_back ();
      ASSERT_NE (nullptr, file) << path;
      if (!reached.insert (path).second)
        continue;
      for (const std::string &each : ReferencesOf (*file))
        open.push_back (each);
    }
  for (const TpsConsoleFile &file : ListFiles ())
    EXPECT_EQ (1u, reached.count (file.path)) << "not used by the page: " << file.path;
}

TEST (ConsoleFiles, HaveTagsOfTheirBytes)
{
  std::set<std::string> tags;

  for (const TpsConsoleFile &file : ListFiles ())
    {
      EXPECT_TRUE (std::regex_match (file.etag, std::regex ("\"[0-9a-f]{16}\""))) << file.etag;
      tags.insert (file.etag);
    }
  EXPECT_EQ (ListFiles ().size (), tags.size ());
}

// The header Content-Security-Policy forbids inline scripts and styles, so a browser would drop
// them.
TEST (ConsoleFiles, HaveNoScriptsOrStylesInThePage)
{
  const std::string page = TextOf (*tps_console_find_file ("/"));

  EXPECT_FALSE (
      std::regex_search (page, std::regex (R"re(<style|\sstyle=|\son\w+=|javascript:)re")));
  EXPECT_FALSE (std::regex_search (page, std::regex (R"re(<script(?![^>]*\ssrc=))re")));
}

// Names of tables and principals come from peers, so the page must never interpret them as HTML.
TEST (ConsoleFiles, NeverReadTextAsHtml)
{
  const std::regex reads_html (
      R"re(innerHTML|outerHTML|AdjacentHTML|document\.write|\beval\b|new Function|DOMParser)re");

  for (const TpsConsoleFile &file : ListFiles ())
    {
      const std::string content_type = file.content_type;

      if (content_type.rfind ("text/javascript", 0) == 0)
        {
          EXPECT_FALSE (std::regex_search (TextOf (file), reads_html)) << file.path;
        }
    }
}

} // namespace
