# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Builds and starts a client of generated code in each language, with Debian's packages.

A language is a function: it takes a `Workshop` and the path of a program, and returns the command
that runs the program. Its generated code comes from the stock compiler and the stock IDL.
"""

import glob
import os
import shutil
import subprocess
import unittest

BUILD_S = 600


class Workshop:
    """A folder in which one program is built."""

    def __init__(self, folder):
        self.folder = folder
        self.env = dict(os.environ)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, *command, **env):
        """Its output; an AssertionError with the output if it fails."""
        done = subprocess.run(command, cwd=self.folder, env=dict(self.env, **env), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=BUILD_S)
        if done.returncode != 0:
            raise AssertionError("%s: exit code %d\n%s" % (
                " ".join(command), done.returncode, done.stdout[-4000:]))
        return done.stdout

    def generate(self, generator, folder="gen"):
        """Runs the stock compiler over all IDL files; returns the folder of its output."""
        out = self.path(folder)
        os.makedirs(out)
        for idl in os.environ["THRIFTPS_IDL"].split():
            self.run("/usr/bin/thrift", "--gen", generator, "-out", out, os.path.abspath(idl))
        return out

    def flags_of(self, package):
        return self.run("pkg-config", "--cflags", "--libs", package).split()


def python(shop, program):
    shop.env["PYTHONPATH"] = shop.generate("py")
    return ["/usr/bin/python3", program]


def c(shop, program):
    gen = shop.generate("c_glib")
    shop.run("gcc", "-O1", "-w", "-I" + gen, program, *glob.glob(gen + "/*.c"), "-o", "program",
             *shop.flags_of("thrift_c_glib"))
    return [shop.path("program")]


def cpp(shop, program):
    gen = shop.generate("cpp:no_skeleton")
    needed = [name for name in glob.glob(gen + "/*.cpp")
              if os.path.basename(name)[:-len(".cpp")].removesuffix("_types") in CPP_NEEDS]
    shop.run("g++", "-O0", "-w", "-I" + gen, program, *needed, "-o", "program",
             *shop.flags_of("thrift"))
    return [shop.path("program")]


def java(shop, program):
    jars = ":".join("/usr/share/java/%s.jar" % name for name in JARS)
    gen = shop.generate("java:generated_annotations=suppress")
    classes = shop.path("classes")
    shop.run("javac", "-nowarn", "-cp", jars, "-d", classes, program,
             *glob.glob(gen + "/org/thriftps/*.java"))
    name = os.path.basename(program)[:-len(".java")]
    return ["java", "-cp", classes + ":" + jars, name]


def go(shop, program):
    shop.generate("go", "src")
    shop.run("go", "build", "-o", shop.path("program"), program, GO111MODULE="off",
             GOPATH=shop.folder + ":/usr/share/gocode", GOFLAGS="", GOCACHE=shop.path("cache"))
    return [shop.path("program")]


def ruby(shop, program):
    return ["ruby", "-I", shop.generate("rb"), program]


def perl(shop, program):
    return ["perl", "-I", shop.generate("perl"), program]


def php(shop, program):
    return ["php", program, shop.generate("php")]


def node(shop, program):
    modules = os.environ.get("NODE_PATH", "")
    if shutil.which("node") is None or subprocess.run(
            ["node", "-e", "require('thrift')"], stderr=subprocess.DEVNULL).returncode != 0:
        raise unittest.SkipTest(
            "Debian has no Thrift for Node; where `npm install thrift@0.17.0` was run, say "
            "--test_env=NODE_PATH=.../node_modules")
    shop.env["NODE_PATH"] = modules + ":" + shop.generate("js:node")
    return ["node", program]


def rust(shop, program):
    crates = os.environ.get("THRIFTPS_CARGO_HOME")
    if crates is None:
        raise unittest.SkipTest(
            "Debian has no Thrift for Rust; where the crate thrift 0.17 can be had, say "
            "--test_env=PATH --test_env=THRIFTPS_CARGO_HOME=DIR, a CARGO_HOME that has it")
    gen = shop.generate("rs", "src/thriftps")
    modules = sorted(os.path.basename(name)[:-len(".rs")] for name in glob.glob(gen + "/*.rs"))
    with open(os.path.join(gen, "mod.rs"), "w", encoding="utf-8") as root:
        root.writelines("pub mod %s;\n" % name for name in modules)
    shutil.copy(program, shop.path("src", "main.rs"))
    with open(shop.path("Cargo.toml"), "w", encoding="utf-8") as manifest:
        manifest.write(CARGO_TOML)
    shop.run("cargo", "build", "--offline", "--quiet", CARGO_HOME=crates, RUSTFLAGS="-Awarnings")
    return [shop.path("target", "debug", "program")]


# The services that the programs call. Others would only increase the build time.
CPP_NEEDS = ("EmbeddingTable", "ParameterServer", "embedding_table", "node", "parameter_server",
             "tensor")
JARS = ("thrift", "slf4j-api", "slf4j-nop")
CARGO_TOML = """[package]
name = "program"
version = "0.0.0"
edition = "2021"
[dependencies]
thrift = "0.17"
"""

# By the name of the language: the build function, and the extension of source files.
LANGUAGES = {
    "Python": (python, "py"),
    "C": (c, "c"),
    "C++": (cpp, "cc"),
    "Java": (java, "java"),
    "Go": (go, "go"),
    "Ruby": (ruby, "rb"),
    "Perl": (perl, "pl"),
    "PHP": (php, "php"),
    "Node": (node, "js"),
    "Rust": (rust, "rs"),
}


def find_program(folder, stem, extension):
    """The path of `stem` in a language; Java requires the name of the class."""
    if extension == "java":
        stem = "".join(word.capitalize() for word in stem.split("_"))
    return os.path.abspath(os.path.join(folder, "%s.%s" % (stem, extension)))


def add_tests(case, check):
    """Adds test_<language> to a TestCase: check(test, language, make, extension)."""
    for language, (make, extension) in LANGUAGES.items():
        def test(self, language=language, make=make, extension=extension):
            check(self, language, make, extension)
        setattr(case, "test_" + language.lower().replace("+", "p"), test)
