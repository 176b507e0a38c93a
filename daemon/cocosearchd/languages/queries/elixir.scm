; Modules, protocols, implementations, functions and macros; adjacent clauses of a function are one definition.
(call target: (identifier) @_keyword (arguments . (alias) @name) (do_block) @body
  (#any-of? @_keyword "defmodule" "defimpl")) @definition.module
(call target: (identifier) @_keyword (arguments . (alias) @name) (do_block) @body
  (#eq? @_keyword "defprotocol")) @definition.interface
(call target: (identifier) @_keyword
  (arguments . [(call target: (identifier) @name) (identifier) @name
    (binary_operator left: (call target: (identifier) @name)) (binary_operator left: (identifier) @name)])
  (do_block)? @body
  (#any-of? @_keyword "def" "defp" "defdelegate" "defguard")) @clause.function
(call target: (identifier) @_keyword
  (arguments . [(call target: (identifier) @name) (identifier) @name (binary_operator left: (call target: (identifier) @name))])
  (do_block)? @body
  (#any-of? @_keyword "defmacro" "defmacrop")) @clause.macro
