"""References in each language, from parsed files: packages, modules, includes, namespaces."""

from dataclasses import dataclass

import pytest

from benchmarks.graph.parsed_files import ParsedFiles
from cocosearchd.graph.code_files import CodeFile, DefinitionKey
from cocosearchd.graph.resolution.resolver import Resolver
from cocosearchd.languages.parse import parse


@dataclass(frozen=True)
class Case:
    """Files, and the places of the certain and likely uses of some of their definitions."""

    files: dict[str, str]
    uses: dict[str, list[str]]  # "path:qualified name" -> "path:line confidence"


CASES = {
    "Go: packages, promoted methods, interfaces": Case(
        {
            "go.mod": "module example.com/shop/v2\n",
            "shop.go": "package shop\n\ntype Item struct{}\n",
            "store/store.go": (
                "package store\n\n"
                'import "example.com/shop/v2"\n\n'
                "type Store struct{ base }\n\n"
                "func New() *Store { return &Store{} }\n"
                "func (s *Store) Get(k string) shop.Item { return s.find(k) }\n"
                "type Getter interface{ Get(k string) shop.Item }\n"
            ),
            "store/find.go": (
                "package store\n\n"
                'import "example.com/shop/v2"\n\n'
                "type base struct{}\n\n"
                "func (b base) find(k string) shop.Item { return shop.Item{} }\n"
            ),
            "cmd/main.go": (
                "package main\n\n"
                'import (\n\t"fmt"\n\t"example.com/shop/v2/store"\n)\n\n'
                "func Get() {}\n"
                "func run(g store.Getter) { g.Get(fmt.Sprint(1)) }\n"
                "func main() {\n\ts := store.New()\n\ts.Get(s.find(1))\n\tGet()\n}\n"
            ),
        },
        {
            "shop.go:Item": [
                "store/find.go:7 certain",
                "store/store.go:8 certain",
                "store/store.go:9 certain",
            ],
            "store/store.go:New": ["cmd/main.go:11 certain"],
            "store/store.go:Store.Get": ["cmd/main.go:12 certain"],
            "store/store.go:Getter.Get": ["cmd/main.go:9 certain"],
            "store/find.go:base.find": ["cmd/main.go:12 certain", "store/store.go:8 certain"],
            "cmd/main.go:Get": ["cmd/main.go:13 certain"],
        },
    ),
    "Rust: crates, modules, traits, macros": Case(
        {
            "crates/core/Cargo.toml": '[package]\nname = "shop-core"\n',
            "crates/core/src/lib.rs": "mod store;\npub mod traits;\npub use crate::store::Store;\n",
            "crates/core/src/traits.rs": (
                "pub trait Find {\n    fn find(&self) -> u8;\n"
                "    fn find_all(&self) -> u8 { self.find() }\n}\n"
            ),
            "crates/core/src/store.rs": (
                "use super::traits::Find;\n\n"
                "pub struct Store<T> { item: T }\n\n"
                "impl<T> Store<T> {\n    pub fn build() -> Self { Store { item: 1 } }\n}\n\n"
                "impl<T> Find for Store<T> {\n    fn find(&self) -> u8 { 1 }\n}\n\n"
                "fn all<F: Find>(f: F) -> u8 { f.find() }\n"
            ),
            "crates/cli/Cargo.toml": '[package]\nname = "shop-cli"\n',
            "crates/cli/src/main.rs": (
                "use shop_core::{traits::{self, Find as _}, Store as Shop};\n\n"
                "fn main() {\n    let shop = Shop::build();\n"
                '    println!("{}", shop.find_all());\n'
                "    assert!(Shop::build().find() == traits::missing());\n}\n"
            ),
        },
        {
            "crates/core/src/store.rs:Store": [
                "crates/cli/src/main.rs:4 certain",
                "crates/cli/src/main.rs:6 certain",
                "crates/core/src/store.rs:5 certain",
                "crates/core/src/store.rs:6 certain",
                "crates/core/src/store.rs:9 certain",
            ],
            "crates/core/src/store.rs:Store.build": [
                "crates/cli/src/main.rs:4 certain",
                "crates/cli/src/main.rs:6 certain",
            ],
            "crates/core/src/traits.rs:Find.find": [
                "crates/core/src/store.rs:13 certain",
                "crates/core/src/traits.rs:3 certain",
            ],
            "crates/core/src/traits.rs:Find.find_all": ["crates/cli/src/main.rs:5 certain"],
        },
    ),
    "Java: packages, static imports, inheritance, fields with names of methods": Case(
        {
            "core/src/main/java/shop/Base.java": (
                "package shop;\n\npublic class Base<T extends Base<T>> {\n"
                "  protected int size() { return 1; }\n  public Base<T> self() { return this; }\n}\n"
            ),
            "core/src/main/java/shop/Store.java": (
                "package shop;\n\npublic final class Store extends Base<Store> {\n"
                "  private final int count = 2;\n  public static Store of(int n) { return new Store(); }\n"
                "  public int count() { return count + size(); }\n  class Inner { int all() { return count(); } }\n}\n"
            ),
            "core/src/test/java/shop/StoreTest.java": (
                "package shop;\n\nimport static shop.Store.of;\n\nclass StoreTest {\n"
                "  void test() { of(1).count(); new Store().self().size(); }\n}\n"
            ),
            "app/src/other/Main.java": (
                "package other;\n\nimport java.util.List;\nimport shop.Store;\n\nclass Main {\n"
                "  void run(List<String> size) { Store s = Store.of(2); s.count(); size.size(); }\n}\n"
            ),
            "app/src/other/Store.java": "package other2;\n\nclass Store { int count() { return 0; } }\n",
        },
        {
            "core/src/main/java/shop/Store.java:Store": [
                "app/src/other/Main.java:7 certain",
                "core/src/main/java/shop/Store.java:3 certain",
                "core/src/main/java/shop/Store.java:5 certain",
                "core/src/test/java/shop/StoreTest.java:6 certain",
            ],
            "core/src/main/java/shop/Store.java:Store.of": [
                "app/src/other/Main.java:7 certain",
                "core/src/test/java/shop/StoreTest.java:6 certain",
            ],
            "core/src/main/java/shop/Store.java:Store.count": [
                "app/src/other/Main.java:7 certain",
                "core/src/main/java/shop/Store.java:7 certain",
                "core/src/test/java/shop/StoreTest.java:6 certain",
            ],
            "core/src/main/java/shop/Base.java:Base.size": [
                "core/src/main/java/shop/Store.java:6 certain",
                "core/src/test/java/shop/StoreTest.java:6 certain",
            ],
            "app/src/other/Store.java:Store.count": [],
        },
    ),
    "C++: declarations, namespaces, classes declared elsewhere, tests": Case(
        {
            "include/shop/store.h": (
                "namespace shop {\nclass SHOP_EXPORT Store {\n public:\n  Store();\n"
                "  int Get(int key) const;\n  static Store* Make();\n};\n"
                "int Count(const Store& store);\n}\n"
            ),
            "src/store.cc": (
                '#include "shop/store.h"\nnamespace shop {\n'
                "Store::Store() {}\nint Store::Get(int key) const { return Count(*this); }\n"
                "Store* Store::Make() { return new Store(); }\n"
                "int Count(const Store& store) { return store.Get(1); }\n}\n"
            ),
            "src/cache.h": (
                "namespace shop {\nclass Store;\nclass Cache {\n public:\n  int Get(int key);\n"
                "  Store* const store_ GUARDED_BY(mutex_);\n};\n}\n"
            ),
            "src/cache.cc": (
                '#include "cache.h"\n#include "shop/store.h"\nnamespace shop {\n'
                "int Cache::Get(int key) { return store_->Get(key) + Count(*store_); }\n}\n"
            ),
            "test/store_test.cc": (
                '#include "shop/store.h"\nusing namespace shop;\n'
                "class StoreTest { public: int Count(); };\n"
                "TEST_F(StoreTest, Counts) {\n  Count();\n  shop::Count(*shop::Store::Make());\n}\n"
            ),
        },
        {
            "include/shop/store.h:shop.Store.Get": [
                "src/cache.cc:4 likely",
                "src/store.cc:6 certain",
            ],
            "src/store.cc:shop.Store.Make": ["test/store_test.cc:6 certain"],
            "src/store.cc:shop.Count": [
                "src/cache.cc:4 certain",
                "src/store.cc:4 certain",
                "test/store_test.cc:6 certain",
            ],
            "test/store_test.cc:StoreTest.Count": ["test/store_test.cc:5 certain"],
            "src/cache.h:shop.Cache.Get": [],
        },
    ),
    "C: headers, and functions of one file with the same name": Case(
        {
            "list.h": "struct list { int n; };\nint list_len(struct list *l);\n",
            "list.c": (
                '#include "list.h"\nstatic int check(void) { return 1; }\n'
                "int list_len(struct list *l) { return check() + l->n; }\n"
            ),
            "main.c": (
                '#include <stdio.h>\n#include "list.h"\nstatic int check(void) { return 2; }\n'
                'int main(void) { struct list l; printf("%d", list_len(&l)); return check(); }\n'
            ),
        },
        {
            "list.c:list_len": ["main.c:4 certain"],
            "list.c:check": ["list.c:3 certain"],
            "main.c:check": ["main.c:4 certain"],
        },
    ),
    "C#: namespaces, base classes, parts": Case(
        {
            "Core/Store.cs": (
                "namespace Shop.Core;\n\npublic class Store : Base\n{\n"
                "    public int Get(int key) => Load(key);\n    public static Store Open() => new Store();\n}\n"
            ),
            "Core/Base.cs": (
                "namespace Shop.Core\n{\n    public class Base { protected int Load(int k) { return k; } }\n}\n"
            ),
            "App/Main.cs": (
                "using System;\nusing Shop.Core;\n\nnamespace Shop.App\n{\n    class Main\n    {\n"
                "        private readonly Store _store;\n"
                "        int Run() { var s = Store.Open(); return s.Get(1) + _store.Get(2); }\n"
                "        int Get(int k) { return 0; }\n    }\n}\n"
            ),
        },
        {
            "Core/Store.cs:Shop.Core.Store.Get": ["App/Main.cs:9 certain"],
            "Core/Store.cs:Shop.Core.Store.Open": ["App/Main.cs:9 certain"],
            "Core/Base.cs:Shop.Core.Base.Load": ["Core/Store.cs:5 certain"],
            "App/Main.cs:Shop.App.Main.Get": [],
        },
    ),
    "Kotlin and Java: one family of packages": Case(
        {
            "Store.kt": (
                "package shop\n\nclass Store(val base: Base) {\n"
                "    fun count(): Int { return base.size() }\n}\n\nfun open(base: Base): Store = Store(base)\n"
            ),
            "Base.java": "package shop;\n\npublic class Base { public int size() { return 1; } }\n",
            "Main.kt": (
                "package app\n\nimport shop.Base\nimport shop.open as openStore\n\n"
                "fun main() {\n    val store = openStore(Base())\n    store.count()\n}\n"
            ),
        },
        {
            "Base.java:Base.size": ["Store.kt:4 certain"],
            "Store.kt:open": ["Main.kt:7 certain"],
            "Store.kt:Store.count": ["Main.kt:8 certain"],
        },
    ),
    "Scala: selectors and wildcards": Case(
        {
            "Store.scala": (
                "package shop\n\nclass Store { def count(): Int = 1 }\n"
                "object Stores { def open(): Store = new Store() }\n"
            ),
            "Main.scala": (
                "package app\n\nimport shop.{Stores => S, _}\n\nobject Main {\n"
                "  def run(store: Store): Int = { val other = S.open(); store.count() + other.count() }\n}\n"
            ),
        },
        {
            "Store.scala:Store.count": ["Main.scala:6 certain"],
            "Store.scala:Stores.open": ["Main.scala:6 certain"],
        },
    ),
    "PHP: namespaces, groups, properties": Case(
        {
            "src/Store.php": (
                "<?php\nnamespace Shop\\Core;\n\nclass Store extends Base {\n"
                "    public function __construct(private Log $log) {}\n"
                "    public static function open(): self { return new self(new Log()); }\n"
                "    public function count(): int { return $this->log->lines() + $this->size(); }\n}\n"
            ),
            "src/Base.php": (
                "<?php\nnamespace Shop\\Core;\n\nclass Base { public function size(): int { return 1; } }\n"
                "class Log { public function lines(): int { return 1; } }\n"
            ),
            "app/main.php": (
                "<?php\nnamespace App;\n\nuse Shop\\Core\\{Store, Log as Lines};\n\n"
                "function run(Store $store) { $s = Store::open(); return $s->count() + $store->count(); }\n"
            ),
        },
        {
            "src/Store.php:Shop.Core.Store.count": ["app/main.php:6 certain"],
            "src/Store.php:Shop.Core.Store.open": ["app/main.php:6 certain"],
            "src/Base.php:Shop.Core.Base.size": ["src/Store.php:7 certain"],
            "src/Base.php:Shop.Core.Log.lines": ["src/Store.php:7 likely"],
        },
    ),
    "Ruby: constants, required files, modules": Case(
        {
            "lib/shop/store.rb": (
                "require_relative 'count'\n\nmodule Shop\n  class Store\n    include Count\n"
                "    def total\n      sum_up\n    end\n  end\nend\n"
            ),
            "lib/shop/count.rb": (
                "module Shop\n  module Count\n    def sum_up\n      1\n    end\n  end\nend\n"
            ),
            "bin/run.rb": "require 'shop/store'\n\nstore = Shop::Store.new\nstore.total\n",
        },
        {
            "lib/shop/store.rb:Shop.Store": ["bin/run.rb:3 certain"],
            "lib/shop/store.rb:Shop.Store.total": ["bin/run.rb:4 likely"],
            "lib/shop/count.rb:Shop.Count.sum_up": ["lib/shop/store.rb:7 certain"],
        },
    ),
    "Swift: a module without imports, extensions": Case(
        {
            "Sources/Store.swift": (
                "class Store: Base {\n    let log: Log = Log()\n"
                "    func total() -> Int { return size() + log.lines() }\n}\n"
            ),
            "Sources/Base.swift": (
                "class Base { func size() -> Int { return 1 } }\n"
                "struct Log { func lines() -> Int { return 1 } }\n"
                "extension Store { func both() -> Int { return total() } }\n"
            ),
        },
        {
            "Sources/Base.swift:Base.size": ["Sources/Store.swift:3 certain"],
            "Sources/Base.swift:Log.lines": ["Sources/Store.swift:3 likely"],
            "Sources/Store.swift:Store.total": ["Sources/Base.swift:3 likely"],
        },
    ),
    "Shell: functions of sourced files": Case(
        {
            "lib/log.sh": 'log() { echo "$1"; }\nlocal_only() { log x; }\n',
            "run.sh": '. "$(dirname "$0")/lib/log.sh"\nmain() { log start; }\nmain\n',
            "bin/stop.sh": '. "$ROOT/lib/log.sh"\nlog stop\n',
        },
        {
            "lib/log.sh:log": [
                "bin/stop.sh:2 certain",
                "lib/log.sh:2 certain",
                "run.sh:2 certain",
            ],
            "run.sh:main": ["run.sh:3 certain"],
        },
    ),
}


def load(files: dict[str, str]) -> ParsedFiles:
    """Parse files of some texts."""
    parsed = [parse(path, text.encode()) for path, text in files.items()]
    return ParsedFiles(
        [CodeFile(item.path, item.language, item.symbols, item.facts) for item in parsed],
        files,
    )


def find_uses(files: ParsedFiles, definition: str) -> list[str]:
    """Return the certain and likely uses of "path:qualified name", each place once."""
    path, _, name = definition.partition(":")
    symbols = files.load([path])[path].symbols
    position = next(i for i, symbol in enumerate(symbols) if symbol.qualified_name == name)
    uses = Resolver(files).uses_of(DefinitionKey(path, position))
    places = {
        f"{match.file.path}:{match.use.line} {match.resolution.confidence}"
        for match in uses
        if match.resolution.confidence != "possible"
    }
    return sorted(places)


@pytest.mark.parametrize(
    ("case", "definition"), [(name, key) for name, case in CASES.items() for key in case.uses]
)
def test_uses_are_those_of_the_definition(case: str, definition: str) -> None:
    files = load(CASES[case].files)
    assert find_uses(files, definition) == CASES[case].uses[definition]
