"""Installs everything below a temporary prefix, and uses it like a user."""

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
import unittest

from installation import HERE, INSTALL, ROOT, STRICT, Installation, run

PROGRAMS = {  # each with its smallest number of options
    "thriftps_server": 6,
    "thriftps_trainer": 6,
    "thriftps_log": 6,
    "thriftps_snapshot": 1,
}
TABLES = "share/doc/thriftps/examples/tables.c"
LOOKED_UP = "-1.5 -1.5 -1.5 -1.5\n"  # the output of tables.c: one step of SGD from zero
# All libraries that a client needs at run time, in addition to libc.
NEEDED = {
    "libcrypto.so.3",
    "libglib-2.0.so.0",
    "libgobject-2.0.so.0",
    "libisal.so.2",
    "libjson-glib-1.0.so.0",
    "libthrift_c_glib.so.0",
    "libssl.so.3",
    "libxxhash.so.0",
}
NOT_LINKED = re.compile(r"gloo|openblas|ibverbs|hiredis|gfortran|libstdc")

spec = importlib.util.spec_from_file_location(
    "symbols", os.path.join(ROOT, "plugin/package/symbols.py")
)
symbols = importlib.util.module_from_spec(spec)
spec.loader.exec_module(symbols)


class Installed(Installation):
    def setUp(self):
        super().setUp()
        self.program = os.path.join(self.work, "tables")

    def check_program(self):
        """Runs the program against a server of its own."""
        server = subprocess.Popen(
            [self.path("bin/thriftps_server"), "--listen=127.0.0.1:0"],
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )
        try:
            address = server.stdout.readline().split()[-1]
            self.assertEqual(run(self.program, address, env=self.environment), LOOKED_UP)
        finally:
            server.terminate()
            server.communicate()

    # ---- compilers and build systems ----

    def copy_sources(self, *names):
        """Copies tables.c and files of this folder into the work folder."""
        for path in [self.path(TABLES)] + [os.path.join(HERE, name) for name in names]:
            shutil.copy(path, self.work)

    def compile(self, name):
        """Compiles a program of this folder, and returns its path."""
        program = os.path.join(self.work, name)
        run(
            "gcc",
            *STRICT,
            os.path.join(HERE, name + ".c"),
            "-o",
            program,
            *self.pkg_config("--cflags", "--libs"),
            "-lm",
            env=self.environment
        )
        return program

    def test_a_program_overrides_all_that_subclasses_of_the_original_servers_do(self):
        self.assertEqual(
            run(self.compile("own_server"), "127.0.0.1:0", env=self.environment).splitlines(),
            [
                "a server for 2 trainers",
                "average 1 0.5",  # the average of 3 and 5
                "average 0.375 0.5",
                "batch 2: the gradient of trainer 0 is not finite",
                "5 gradients, 1 clipped, records 2 2 2 2",
                "0 gradients, 0 clipped, records 2 2 2 2",
            ],
        )

    def test_a_static_library_is_enough(self):
        run(
            "gcc",
            self.path(TABLES),
            "-o",
            self.program,
            *self.pkg_config("--cflags"),
            self.path("lib/libthriftps.a"),
            *[flag for flag in self.pkg_config("--libs", "--static") if flag != "-lthriftps"],
            env=self.environment
        )
        self.assertNotIn("libthriftps", run("ldd", self.program))
        self.check_program()

    def test_cmake_finds_it(self):
        self.need("cmake", "make")
        self.copy_sources("CMakeLists.txt")
        run(
            "cmake",
            "-S",
            self.work,
            "-B",
            self.work,
            "-DCMAKE_PREFIX_PATH=" + self.prefix,
            env=self.environment,
        )
        run("cmake", "--build", self.work, env=self.environment)
        self.check_program()

    def test_meson_finds_it(self):
        self.need("meson", "ninja")
        build = os.path.join(self.work, "build")
        self.copy_sources("meson.build")
        run("meson", "setup", build, self.work, env=self.environment)
        run("meson", "compile", "-C", build, env=self.environment)
        self.program = os.path.join(build, "tables")
        self.check_program()

    def headers(self):
        folder = self.path("include/thriftps")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]

    def test_each_header_compiles_alone_in_every_language_and_compiler(self):
        self.assertLessEqual(len(self.headers()), 8)
        for compiler, language, standard in (
            ("gcc", "c", "c11"),
            ("clang", "c", "c11"),
            ("g++", "c++", "c++17"),
            ("clang++", "c++", "c++17"),
        ):
            if shutil.which(compiler) is None:
                continue
            for header in self.headers():
                with self.subTest(compiler + " " + header):
                    run(
                        compiler,
                        "-std=" + standard,
                        *STRICT,
                        "-fsyntax-only",
                        "-x",
                        language,
                        "-include",
                        header,
                        "/dev/null",
                        *self.pkg_config("--cflags")
                    )

    # ---- the library ----

    def library(self):
        return os.path.realpath(self.path("lib/libthriftps.so"))

    def test_exported_are_what_the_headers_declare(self):
        declared = symbols.get_names(self.headers())
        names = run("nm", "-D", "--defined-only", "--extern-only", self.library())
        exported = {
            line.split()[-1].partition("@")[0] for line in names.splitlines()
        } - {symbols.NODE}
        self.assertEqual(sorted(exported), declared)
        self.assertLessEqual(len(exported), 160)

    def test_the_static_library_shows_the_same_names(self):
        names = {
            line.split()[-1]
            for line in run(
                "nm", "--defined-only", "--extern-only", self.path("lib/libthriftps.a")
            ).splitlines()
            if len(line.split()) == 3
        }
        self.assertEqual(sorted(names), symbols.get_names(self.headers()))

    def test_no_declaration_is_missed(self):
        """Compares with the compiler's list of prototypes."""
        prototypes = os.path.join(self.work, "prototypes")
        for header in self.headers():
            run(
                "gcc",
                "-fsyntax-only",
                "-aux-info",
                prototypes,
                "-x",
                "c",
                header,
                *self.pkg_config("--cflags")
            )
            with open(prototypes, encoding="utf-8") as file:
                functions = set(
                    re.findall(
                        r"^/\* %s:\d+:N[CF] \*/ extern .*?\b(tps_\w+) \(" % re.escape(header),
                        file.read(),
                        re.MULTILINE,
                    )
                )
            self.assertEqual(functions - set(symbols.get_names([header])), set())

    def test_it_has_a_versioned_name_and_needs_little(self):
        header = run("objdump", "-p", self.library())
        self.assertEqual(re.findall(r"SONAME +(\S+)", header), ["libthriftps.so.0"])
        needed = {
            name
            for name in re.findall(r"NEEDED +(\S+)", header)
            if not re.match(r"lib[cm]\.so|ld-", name)
        }
        self.assertEqual(needed - NEEDED, set())
        for file in (
            self.library(),
            self.path("bin/thriftps_server"),
            self.path("bin/thriftps_trainer"),
            self.path("bin/thriftps_log"),
            self.path("bin/thriftps_snapshot"),
        ):
            self.assertIsNone(NOT_LINKED.search(run("ldd", file)), file)

    def test_gloo_comes_in_a_library_of_its_own(self):
        class Library(ctypes.Structure):
            _fields_ = [
                ("abi", ctypes.c_uint32),
                ("version", ctypes.c_char_p),
                ("group_new", ctypes.c_void_p),
            ]

        path = self.path("lib/thriftps/libtps_gloo.so")
        library = Library.in_dll(ctypes.CDLL(path), "tps_gloo_library")
        self.assertEqual(library.version.decode(), self.version())
        self.assertTrue(library.group_new)
        exported = run("nm", "-D", "--defined-only", path).split()
        self.assertEqual(exported[-1], "tps_gloo_library")

    # ---- programs, pages and files ----

    def test_the_page_of_snapshots_names_its_commands(self):
        with open(self.path("share/man/man1/thriftps_snapshot.1"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("\n.B thriftps_snapshot COMMAND PATH...\n", page)
        self.assertIn("\\fBexport TO PATH...\\fR", page)

    def version(self):
        return run(self.path("bin/thriftps_server"), "--version").split()[-1]

    def test_all_versions_are_the_same(self):
        self.assertEqual(self.pkg_config("--modversion"), [self.version()])
        self.assertTrue(self.library().endswith("libthriftps.so." + self.version()))
        with open(
            self.path("lib/cmake/thriftps/thriftpsConfigVersion.cmake"), encoding="utf-8"
        ) as file:
            self.assertIn('set (PACKAGE_VERSION "%s")' % self.version(), file.read())

    def test_manual_pages_name_every_option(self):
        for program, n_options in PROGRAMS.items():
            options = re.findall(
                r"^  (--[\w-]+)", run(self.path("bin/" + program), "--help"), re.MULTILINE
            )
            with open(self.path("share/man/man1/%s.1" % program), encoding="utf-8") as file:
                page = file.read().replace("\\-", "-")
            self.assertGreaterEqual(len(options), n_options)
            for option in options:
                self.assertRegex(page, r"\\fB%s[=\\]" % option)

    def test_the_service_starts_the_installed_server_with_the_installed_configuration(self):
        with open(self.path("lib/systemd/system/thriftps.service"), encoding="utf-8") as file:
            unit = file.read()
        self.assertNotRegex(unit, "@[A-Z]+@")
        command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1).split()
        server = subprocess.Popen(
            command + ["--listen=127.0.0.1:0"], stdout=subprocess.PIPE, encoding="utf-8"
        )
        self.assertRegex(server.stdout.readline(), r"^listening on 127\.0\.0\.1:\d+$")
        server.terminate()
        server.communicate()
        self.assertEqual(server.returncode, 0)

    def test_the_service_is_one_that_systemd_understands(self):
        self.need("systemd-analyze")
        units = [
            self.path("lib/systemd/system/thriftps." + kind) for kind in ("service", "socket")
        ]
        said = run("systemd-analyze", "verify", "--man=no", *units)
        for unit in units:
            self.assertNotIn(unit, said)

    def test_the_service_may_do_little(self):
        self.need("systemd-analyze")
        unit = self.path("lib/systemd/system/thriftps.service")
        # The exposure is at most 10, and OPERATING.md says 1.5. The command fails above the
        # threshold.
        run("systemd-analyze", "security", "--offline=true", "--threshold=15", unit)

    def test_the_idl_makes_clients(self):
        self.need("thrift")
        idl = self.pkg_config("--variable=idldir")[0]
        run(
            "thrift",
            "--gen",
            "py",
            "-out",
            self.work,
            "-r",
            os.path.join(idl, "embedding_table.thrift"),
        )
        self.assertIn(
            "EmbeddingTable.py", os.listdir(os.path.join(self.work, "thriftps/embedding_table"))
        )

    def test_a_destdir_stands_before_all_paths_and_uninstall_leaves_nothing(self):
        stage = os.path.join(self.work, "stage")
        options = ["--prefix=/usr", "--destdir=" + stage, "--libdir=lib/x86_64-linux-gnu"]
        run(INSTALL, *options)
        with open(
            os.path.join(stage, "usr/lib/x86_64-linux-gnu/pkgconfig/thriftps.pc"), encoding="utf-8"
        ) as file:
            self.assertIn("libdir=/usr/lib/x86_64-linux-gnu\n", file.read())
        self.assertTrue(os.path.exists(os.path.join(stage, "etc/thriftps/server.json")))
        run(INSTALL, *options, "--uninstall")
        left = [os.path.join(folder, name) for folder, _, names in os.walk(stage) for name in names]
        self.assertEqual(left, [os.path.join(stage, "etc/thriftps/server.json")])

    def test_a_configuration_that_exists_stays(self):
        path = os.path.join(self.work, "etc/thriftps/server.json")
        run(INSTALL, "--prefix=" + self.work)
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"ntrainer": 7}')
        run(INSTALL, "--prefix=" + self.work)
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), '{"ntrainer": 7}')


if __name__ == "__main__":
    unittest.main()
