"""The table of languages: extensions, file names, interpreters, aliases, comments, definitions, chunking.

ARCHITECTURE.md, "To add something", names the further steps for a new language.
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

from cocosearchd.languages.patterns import comment_styles as styles
from cocosearchd.languages.patterns import definition_rules as rules

Chunking = Literal["tree-sitter", "handler", "text"]


@dataclass(frozen=True, slots=True)
class LanguageInfo:
    """A language. `grammar` is a name in tree-sitter-language-pack; "" if no grammar is useful."""

    name: str
    extensions: tuple[str, ...]  # with the dot, lower case
    grammar: str = ""
    symbols: bool = False  # True if queries/<name>.scm exists
    chunking: Chunking = "tree-sitter"
    file_names: tuple[str, ...] = ()  # compared without case
    interpreters: tuple[str, ...] = ()  # programs in shebang lines, without versions
    aliases: tuple[str, ...] = ()  # other names for filters
    comments: styles.CommentStyle = styles.NO_COMMENTS
    definitions: rules.DefinitionRules = rules.COMMON_RULES
    prose: bool = False  # text or data about code, not code
    # True if every text is valid: without a query, a parse would give no information
    always_valid: bool = False

    @property
    def context(self) -> bool:
        """True if a hit can be expanded to its enclosing definition."""
        return self.symbols


def _row(
    name: str,
    extensions: str,
    grammar: str,
    style: styles.CommentStyle,
    *,
    definitions: rules.DefinitionRules = rules.COMMON_RULES,
    symbols: bool = False,
    handler: bool = False,
    prose: bool = False,
    always_valid: bool = False,
    file_names: str = "",
    interpreters: str = "",
    aliases: str = "",
) -> LanguageInfo:
    """Make a row of the table. Lists are given as words, separated by blanks."""
    chunking: Chunking = "tree-sitter" if grammar else "text"
    return LanguageInfo(
        name=name,
        extensions=tuple(extensions.split()),
        grammar=grammar,
        symbols=symbols,
        chunking="handler" if handler else chunking,
        file_names=tuple(file_names.split()),
        interpreters=tuple(interpreters.split()),
        aliases=tuple(aliases.split()),
        comments=style,
        definitions=definitions,
        prose=prose,
        always_valid=always_valid,
    )


_LANGUAGES = (
    # Fully supported languages. `cocosearchctl languages` lists them first.
    _row(
        "python",
        ".py .pyi .pyw",
        "python",
        styles.PYTHON,
        symbols=True,
        interpreters="python pypy uv",
        aliases="py",
    ),
    _row(
        "javascript",
        ".js .jsx .mjs .cjs",
        "javascript",
        styles.C_LIKE,
        definitions=rules.JAVASCRIPT_RULES,
        symbols=True,
        interpreters="node bun",
        aliases="js jsx",
    ),
    _row(
        "typescript",
        ".ts .tsx .mts .cts",
        "typescript",
        styles.C_LIKE,
        definitions=rules.JAVASCRIPT_RULES,
        symbols=True,
        interpreters="deno ts-node tsx",
        aliases="ts tsx",
    ),
    _row("go", ".go", "go", styles.C_LIKE, symbols=True, aliases="golang"),
    _row("rust", ".rs", "rust", styles.C_LIKE, symbols=True, aliases="rs"),
    _row("java", ".java", "java", styles.C_LIKE, definitions=rules.JAVA_RULES, symbols=True),
    _row("c", ".c .h", "c", styles.C_LIKE, definitions=rules.C_RULES, symbols=True),
    _row(
        "cpp",
        ".cpp .cc .cxx .c++ .hpp .hh .hxx .h++ .ipp .inl .tpp .cu .cuh",
        "cpp",
        styles.C_LIKE,
        definitions=rules.C_RULES,
        symbols=True,
        aliases="c++ cxx",
    ),
    _row(
        "csharp",
        ".cs .csx",
        "csharp",
        styles.C_LIKE,
        definitions=rules.JAVA_RULES,
        symbols=True,
        aliases="c# cs",
    ),
    _row(
        "ruby",
        ".rb .rake .gemspec .ru",
        "ruby",
        styles.RUBY,
        symbols=True,
        file_names="gemfile rakefile vagrantfile podfile brewfile guardfile fastfile",
        interpreters="ruby jruby",
        aliases="rb",
    ),
    _row(
        "php",
        ".php .phtml .php5",
        "php",
        styles.C_LIKE_OR_HASH,
        definitions=rules.PHP_RULES,
        symbols=True,
        interpreters="php",
    ),
    _row("swift", ".swift", "swift", styles.C_LIKE, symbols=True, interpreters="swift"),
    _row("kotlin", ".kt .kts", "kotlin", styles.C_LIKE, symbols=True, aliases="kt"),
    _row("scala", ".scala .sbt .sc", "scala", styles.C_LIKE, symbols=True, interpreters="scala"),
    _row(
        "r",
        ".r .rmd",
        "r",
        styles.HASH,
        symbols=True,
        file_names=".rprofile",
        interpreters="rscript",
    ),
    _row(
        "solidity",
        ".sol",
        "solidity",
        styles.C_LIKE,
        definitions=rules.SOLIDITY_RULES,
        symbols=True,
        aliases="sol",
    ),
    _row(
        "fortran",
        ".f .for .f77 .f90 .f95 .f03 .f08",
        "fortran",
        styles.EXCLAMATION,
        definitions=rules.FORTRAN_RULES,
        symbols=True,
    ),
    _row(
        "pascal",
        ".pas .pp .dpr .lpr",
        "pascal",
        styles.PASCAL,
        definitions=rules.PASCAL_RULES,
        symbols=True,
        aliases="delphi",
    ),
    _row("sql", ".sql .ddl .dml .psql", "sql", styles.SQL, symbols=True),
    _row("html", ".html .htm .xhtml", "html", styles.TAGS, prose=True),
    _row("css", ".css", "css", styles.C_BLOCKS, prose=True, symbols=True),
    _row(
        "yaml",
        ".yaml .yml",
        "yaml",
        styles.HASH,
        prose=True,
        file_names=".clang-format .clang-tidy",
        aliases="yml",
    ),
    _row(
        "json",
        ".json .jsonc .json5 .webmanifest .geojson",
        "json",
        styles.NO_COMMENTS,
        prose=True,
        file_names=".babelrc .eslintrc .prettierrc",
    ),
    _row("toml", ".toml", "toml", styles.HASH, prose=True),
    _row(
        "xml",
        ".xml .xsd .xsl .xslt .svg .plist .csproj .fsproj .props .targets .resx .wsdl",
        "xml",
        styles.TAGS,
        prose=True,
    ),
    _row(
        "markdown",
        ".md .markdown .mdown",
        "markdown",
        styles.NO_COMMENTS,
        prose=True,
        always_valid=True,  # CommonMark 0.31.2, 1.1: any sequence of characters is a document
        handler=True,
        aliases="md",
    ),
    _row("mdx", ".mdx", "", styles.NO_COMMENTS, prose=True, handler=True),
    _row("dtd", ".dtd .ent", "dtd", styles.TAGS),
    _row(
        "hcl",
        ".hcl .tf .tfvars .nomad",
        "hcl",
        styles.C_LIKE_OR_HASH,
        symbols=True,
        handler=True,
        aliases="terraform tf",
    ),
    _row(
        "dockerfile",
        ".dockerfile .containerfile",
        "dockerfile",
        styles.HASH,
        symbols=True,
        handler=True,
        file_names="dockerfile containerfile",
        aliases="docker",
    ),
    _row(
        "bash",
        ".sh .bash .zsh .ksh .bats",
        "bash",
        styles.HASH,
        definitions=rules.SHELL_RULES,
        symbols=True,
        handler=True,
        file_names=".bashrc .bash_profile .bash_aliases .profile .zshrc .zshenv",
        interpreters="bash sh zsh dash ksh ash bats",
        aliases="shell sh zsh",
    ),
    # Other languages: they have a grammar in the wheel, or are chunked as plain text.
    _row(
        "lua",
        ".lua",
        "lua",
        styles.LUA,
        definitions=rules.LUA_RULES,
        symbols=True,
        interpreters="lua luajit",
    ),
    _row(
        "elixir",
        ".ex .exs",
        "elixir",
        styles.HASH_OR_QUOTES,
        symbols=True,
        interpreters="elixir",
        aliases="ex",
    ),
    _row(
        "haskell",
        ".hs",
        "haskell",
        styles.HASKELL,
        definitions=rules.HASKELL_RULES,
        symbols=True,
        interpreters="runhaskell stack",
        aliases="hs",
    ),
    _row("zig", ".zig .zon", "zig", styles.SLASHES, definitions=rules.ZIG_RULES, symbols=True),
    _row("dart", ".dart", "dart", styles.C_LIKE, symbols=True, interpreters="dart"),
    _row(
        "groovy",
        ".groovy .gradle .gvy",
        "groovy",
        styles.C_LIKE,
        symbols=True,
        file_names="jenkinsfile",
        interpreters="groovy",
    ),
    _row("perl", ".pl .pm .t", "perl", styles.PERL, symbols=True, interpreters="perl"),
    _row("julia", ".jl", "julia", styles.JULIA, symbols=True, interpreters="julia"),
    _row("ocaml", ".ml", "ocaml", styles.ML, symbols=True),
    _row("clojure", ".clj .cljs .cljc .edn", "clojure", styles.SEMICOLON, symbols=True),
    _row("erlang", ".erl .hrl", "erlang", styles.PERCENT, symbols=True, interpreters="escript"),
    _row("elm", ".elm", "elm", styles.HASKELL, symbols=True),
    _row("fsharp", ".fs .fsx", "fsharp", styles.ML_OR_SLASHES, symbols=True, aliases="f#"),
    _row("nim", ".nim", "nim", styles.NIM),
    _row("nix", ".nix", "nix", styles.HASH_OR_C_BLOCKS),
    _row("objc", ".m .mm", "objc", styles.C_LIKE, symbols=True, aliases="objective-c"),
    _row(
        "powershell",
        ".ps1 .psm1",
        "powershell",
        styles.POWERSHELL,
        symbols=True,
        interpreters="pwsh",
    ),
    _row("proto", ".proto", "proto", styles.C_LIKE, symbols=True, aliases="protobuf"),
    _row("graphql", ".graphql .gql", "graphql", styles.HASH_OR_QUOTES, symbols=True),
    _row("prisma", ".prisma", "prisma", styles.SLASHES),
    _row("thrift", ".thrift", "thrift", styles.C_LIKE_OR_HASH),
    _row(
        "starlark",
        ".bzl .star",
        "starlark",
        styles.PYTHON,
        file_names="build workspace build.bazel workspace.bazel tiltfile",
    ),
    _row(
        "make",
        ".mk .mak",
        "make",
        styles.HASH,
        symbols=True,
        file_names="makefile gnumakefile",
        interpreters="make",
        aliases="makefile",
    ),
    _row("cmake", ".cmake", "cmake", styles.CMAKE, file_names="cmakelists.txt"),
    _row("just", ".just", "", styles.HASH, file_names="justfile"),
    _row("scss", ".scss", "scss", styles.C_LIKE, symbols=True),
    _row("less", ".less", "", styles.C_LIKE),
    _row("vue", ".vue", "vue", styles.C_LIKE_OR_TAGS),
    _row("svelte", ".svelte", "svelte", styles.C_LIKE_OR_TAGS),
    _row("gotemplate", ".tpl .gotmpl .tmpl", "", styles.HASH_OR_C_BLOCKS),
    _row("jinja", ".j2 .jinja .jinja2", "", styles.JINJA),
    _row("rst", ".rst", "", styles.NO_COMMENTS, prose=True),
    _row(
        "ini",
        ".ini .cfg .conf .properties .editorconfig .service .timer .socket .env",
        "",
        styles.SEMICOLON_OR_HASH,
        prose=True,
        file_names=".editorconfig .gitconfig .env .envrc .env.example .env.sample .env.template .env.dist",
    ),
    _row("vim", ".vim", "vim", styles.VIM, file_names=".vimrc"),
    _row("verilog", ".v .sv .svh", "verilog", styles.C_LIKE),
    _row("vhdl", ".vhd .vhdl", "vhdl", styles.SQL, definitions=rules.VHDL_RULES),
    _row("asm", ".s .asm", "asm", styles.ASSEMBLY),
    _row("glsl", ".glsl .vert .frag", "glsl", styles.C_LIKE),
    _row(
        "text",
        ".txt .text .adoc .asciidoc .org .tex",
        "",
        styles.NO_COMMENTS,
        prose=True,
        file_names="readme license licence copying notice changelog authors contributing codeowners",
    ),
)


def languages() -> tuple[LanguageInfo, ...]:
    """Return every language in the order of `cocosearchctl languages`."""
    return _LANGUAGES


@cache
def by_name() -> dict[str, LanguageInfo]:
    """Map names to languages. The result is shared: do not change it."""
    return {row.name: row for row in languages()}


@cache
def by_extension() -> dict[str, LanguageInfo]:
    """Map extensions, with the dot, to languages. The first row wins.

    The result is shared: do not change it.
    """
    return {extension: row for row in reversed(languages()) for extension in row.extensions}


@cache
def by_file_name() -> dict[str, LanguageInfo]:
    """Map file names in lower case to languages. The result is shared: do not change it."""
    return {name: row for row in reversed(languages()) for name in row.file_names}


@cache
def by_interpreter() -> dict[str, LanguageInfo]:
    """Map programs of shebang lines to languages. The result is shared: do not change it."""
    return {name: row for row in reversed(languages()) for name in row.interpreters}
