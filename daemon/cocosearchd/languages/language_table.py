"""The table of languages: names, extensions, file names, interpreters and chunking.

To add a language, add a row here and, if it has symbols, `queries/<name>.scm` and a golden case.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

Chunking = Literal["tree-sitter", "handler", "text"]


@dataclass(frozen=True, slots=True)
class LanguageInfo:
    """A language. `grammar` is its name in tree-sitter-language-pack, "" if none is of use."""

    name: str
    extensions: tuple[str, ...]  # with the dot, lower case
    grammar: str = ""
    symbols: bool = False  # queries/<name>.scm exists
    chunking: Chunking = "tree-sitter"
    file_names: tuple[str, ...] = ()  # compared without case
    interpreters: tuple[str, ...] = ()  # of a shebang line, without version
    aliases: tuple[str, ...] = ()  # other names for filters

    @property
    def context(self) -> bool:
        """True if a hit can be expanded to its enclosing definition."""
        return self.symbols


def _row(name: str, extensions: str, grammar: str = "", **options: str | bool) -> LanguageInfo:
    """Make a row of the table from lists written as words."""
    chunking: Chunking = "tree-sitter" if grammar else "text"
    if options.get("handler"):
        chunking = "handler"
    tuples = {
        key: tuple(str(options.get(key, "")).split())
        for key in ("file_names", "interpreters", "aliases")
    }
    return LanguageInfo(
        name,
        tuple(extensions.split()),
        grammar,
        symbols=bool(options.get("symbols")),
        chunking=chunking,
        **tuples,
    )


_DESIGN = (
    _row(
        "python",
        ".py .pyi .pyw",
        "python",
        symbols=True,
        interpreters="python pypy uv",
        aliases="py",
    ),
    _row(
        "javascript",
        ".js .jsx .mjs .cjs",
        "javascript",
        symbols=True,
        interpreters="node bun",
        aliases="js jsx",
    ),
    _row(
        "typescript",
        ".ts .tsx .mts .cts",
        "typescript",
        symbols=True,
        interpreters="deno ts-node tsx",
        aliases="ts tsx",
    ),
    _row("go", ".go", "go", symbols=True, aliases="golang"),
    _row("rust", ".rs", "rust", symbols=True, aliases="rs"),
    _row("java", ".java", "java", symbols=True),
    _row("c", ".c .h", "c", symbols=True),
    _row(
        "cpp",
        ".cpp .cc .cxx .c++ .hpp .hh .hxx .h++ .ipp .inl .tpp .cu .cuh",
        "cpp",
        symbols=True,
        aliases="c++ cxx",
    ),
    _row("csharp", ".cs .csx", "csharp", symbols=True, aliases="c# cs"),
    _row(
        "ruby",
        ".rb .rake .gemspec .ru",
        "ruby",
        symbols=True,
        file_names="gemfile rakefile vagrantfile podfile brewfile guardfile fastfile",
        interpreters="ruby jruby",
        aliases="rb",
    ),
    _row("php", ".php .phtml .php5", "php", symbols=True, interpreters="php"),
    _row("swift", ".swift", "swift", symbols=True, interpreters="swift"),
    _row("kotlin", ".kt .kts", "kotlin", symbols=True, aliases="kt"),
    _row("scala", ".scala .sbt .sc", "scala", symbols=True, interpreters="scala"),
    _row("r", ".r .rmd", "r", symbols=True, file_names=".rprofile", interpreters="rscript"),
    _row("solidity", ".sol", "solidity", symbols=True, aliases="sol"),
    _row("fortran", ".f .for .f77 .f90 .f95 .f03 .f08", "fortran", symbols=True),
    _row("pascal", ".pas .pp .dpr .lpr", "pascal", symbols=True, aliases="delphi"),
    _row("sql", ".sql .ddl .dml .psql", "sql", symbols=True),
    _row("html", ".html .htm .xhtml", "html"),
    _row("css", ".css", "css", symbols=True),
    _row("yaml", ".yaml .yml", "yaml", file_names=".clang-format .clang-tidy", aliases="yml"),
    _row(
        "json",
        ".json .jsonc .json5 .webmanifest .geojson",
        "json",
        file_names=".babelrc .eslintrc .prettierrc",
    ),
    _row("toml", ".toml", "toml"),
    _row(
        "xml", ".xml .xsd .xsl .xslt .svg .plist .csproj .fsproj .props .targets .resx .wsdl", "xml"
    ),
    _row("markdown", ".md .markdown .mdown", "markdown", handler=True, aliases="md"),
    _row("mdx", ".mdx", "", handler=True),
    _row("dtd", ".dtd .ent", "dtd"),
    _row(
        "hcl", ".hcl .tf .tfvars .nomad", "hcl", symbols=True, handler=True, aliases="terraform tf"
    ),
    _row(
        "dockerfile",
        ".dockerfile .containerfile",
        "dockerfile",
        handler=True,
        file_names="dockerfile containerfile",
        aliases="docker",
    ),
    _row(
        "bash",
        ".sh .bash .zsh .ksh .bats",
        "bash",
        symbols=True,
        handler=True,
        file_names=".bashrc .bash_profile .bash_aliases .profile .zshrc .zshenv",
        interpreters="bash sh zsh dash ksh ash bats",
        aliases="shell sh zsh",
    ),
)

# Not in the design, but their grammars are in the wheel.
_MORE = (
    _row("lua", ".lua", "lua", symbols=True, interpreters="lua luajit"),
    _row("elixir", ".ex .exs", "elixir", symbols=True, interpreters="elixir", aliases="ex"),
    _row("haskell", ".hs", "haskell", symbols=True, interpreters="runhaskell stack", aliases="hs"),
    _row("zig", ".zig .zon", "zig", symbols=True),
    _row("dart", ".dart", "dart", symbols=True, interpreters="dart"),
    _row(
        "groovy",
        ".groovy .gradle .gvy",
        "groovy",
        symbols=True,
        file_names="jenkinsfile",
        interpreters="groovy",
    ),
    _row("perl", ".pl .pm .t", "perl", symbols=True, interpreters="perl"),
    _row("julia", ".jl", "julia", symbols=True, interpreters="julia"),
    _row("ocaml", ".ml", "ocaml", symbols=True),
    _row("clojure", ".clj .cljs .cljc .edn", "clojure", symbols=True),
    _row("erlang", ".erl .hrl", "erlang", symbols=True, interpreters="escript"),
    _row("elm", ".elm", "elm", symbols=True),
    _row("fsharp", ".fs .fsx", "fsharp", symbols=True, aliases="f#"),
    _row("nim", ".nim", "nim"),
    _row("nix", ".nix", "nix"),
    _row("objc", ".m .mm", "objc", symbols=True, aliases="objective-c"),
    _row("powershell", ".ps1 .psm1", "powershell", symbols=True, interpreters="pwsh"),
    _row("proto", ".proto", "proto", symbols=True, aliases="protobuf"),
    _row("graphql", ".graphql .gql", "graphql", symbols=True),
    _row("prisma", ".prisma", "prisma"),
    _row("thrift", ".thrift", "thrift"),
    _row(
        "starlark",
        ".bzl .star",
        "starlark",
        file_names="build workspace build.bazel workspace.bazel tiltfile",
    ),
    _row(
        "make",
        ".mk .mak",
        "make",
        symbols=True,
        file_names="makefile gnumakefile",
        interpreters="make",
        aliases="makefile",
    ),
    _row("cmake", ".cmake", "cmake", file_names="cmakelists.txt"),
    _row("just", ".just", "", file_names="justfile"),
    _row("scss", ".scss", "scss", symbols=True),
    _row("less", ".less", ""),
    _row("vue", ".vue", "vue"),
    _row("svelte", ".svelte", "svelte"),
    _row("gotemplate", ".tpl .gotmpl .tmpl", ""),
    _row("jinja", ".j2 .jinja .jinja2", ""),
    _row("rst", ".rst", ""),
    _row(
        "ini",
        ".ini .cfg .conf .properties .editorconfig .service .timer .socket .env",
        "",
        file_names=".editorconfig .gitconfig .env .envrc .env.example .env.sample .env.template .env.dist",
    ),
    _row("vim", ".vim", "vim", file_names=".vimrc"),
    _row("verilog", ".v .sv .svh", "verilog"),
    _row("vhdl", ".vhd .vhdl", "vhdl"),
    _row("asm", ".s .asm", "asm"),
    _row("glsl", ".glsl .vert .frag", "glsl"),
    _row(
        "text",
        ".txt .text .adoc .asciidoc .org .tex",
        "",
        file_names="readme license licence copying notice changelog authors contributing codeowners",
    ),
)


def languages() -> tuple[LanguageInfo, ...]:
    """Return every language in the order of `cocosearchctl languages`."""
    return _DESIGN + _MORE


@cache
def by_name() -> dict[str, LanguageInfo]:
    """Map names to languages. The result is shared: do not change it."""
    return {info.name: info for info in languages()}


@cache
def by_extension() -> dict[str, LanguageInfo]:
    """Map extensions, with the dot, to languages. The first row wins.

    The result is shared: do not change it.
    """
    return {extension: info for info in reversed(languages()) for extension in info.extensions}


@cache
def by_file_name() -> dict[str, LanguageInfo]:
    """Map file names in lower case to languages. The result is shared: do not change it."""
    return {name: info for info in reversed(languages()) for name in info.file_names}


@cache
def by_interpreter() -> dict[str, LanguageInfo]:
    """Map programs of shebang lines to languages. The result is shared: do not change it."""
    return {name: info for info in reversed(languages()) for name in info.interpreters}
