; What JavaScript and TypeScript share. `reference_query.py` explains the captures.

; Names: identifiers that nothing below says otherwise of, and chains `a.b.c`.
(identifier) @name
(member_expression) @name
(object (shorthand_property_identifier) @name)
(call_expression function: [(identifier) (member_expression) (super)] @call)
(new_expression constructor: [(identifier) (member_expression)] @call)
(decorator [(identifier) (member_expression)] @call)

; Identifiers that are no uses.
(import_statement) @ignored
(export_specifier) @ignored
(namespace_export) @ignored
(export_statement "default" value: (identifier) @ignored)
[(function_declaration name: (identifier) @definition)
 (generator_function_declaration name: (identifier) @definition)
 (function_expression name: (identifier) @definition)
 (generator_function name: (identifier) @definition)]
(variable_declarator name: (identifier) @definition
  value: [(arrow_function) (function_expression) (generator_function) (class)])

; Scopes and their variables.
[(function_declaration parameters: (formal_parameters) @parameters body: (statement_block) @scope)
 (function_expression parameters: (formal_parameters) @parameters body: (statement_block) @scope)
 (generator_function_declaration parameters: (formal_parameters) @parameters
   body: (statement_block) @scope)
 (generator_function parameters: (formal_parameters) @parameters body: (statement_block) @scope)
 (method_definition parameters: (formal_parameters) @parameters body: (statement_block) @scope)
 (arrow_function parameters: (formal_parameters) @parameters body: (_) @scope)
 (arrow_function parameter: (identifier) @parameters @variable body: (_) @scope)]
[(statement_block) (for_statement) (for_in_statement) (catch_clause) (switch_body)] @scope
[(variable_declarator name: (identifier) @variable)
 (shorthand_property_identifier_pattern) @variable
 (pair_pattern value: (identifier) @variable)
 (array_pattern (identifier) @variable)
 (rest_pattern (identifier) @variable)
 (assignment_pattern left: (identifier) @variable)
 (catch_clause parameter: (identifier) @variable)
 (for_in_statement left: (identifier) @variable)]

; Types and values of variables.
(variable_declarator name: (identifier) @binding
  value: [(call_expression function: (_) @binding.call)
          (new_expression constructor: (_) @binding.call)
          (await_expression (call_expression function: (_) @binding.call))
          [(identifier) (member_expression) (this)] @binding.value])
(assignment_expression left: [(identifier) (member_expression object: (this))] @binding
  right: [(call_expression function: (_) @binding.call)
          (new_expression constructor: (_) @binding.call)
          (await_expression (call_expression function: (_) @binding.call))
          [(identifier) (member_expression)] @binding.value])
(for_in_statement left: (identifier) @binding operator: "of" right: (_) @binding.element)

; Imports, and names that are passed on. The module of a name is that of the statement around it:
; a pattern with a list of names before its module would be in progress once for each name.
(import_statement source: (string) @import.module) @import.statement
(export_statement source: (string) @import.module) @import.statement
(import_clause (identifier) @import.local (#set! import.name "default"))
(namespace_import (identifier) @import.local)
(import_specifier name: (_) @import.name @import.local !alias)
(import_specifier name: (_) @import.name alias: (identifier) @import.local)
(export_statement "*" @import.name source: (string) @import.module (#set! import.exported "true"))
(namespace_export (_) @import.local (#set! import.exported "true"))
(export_specifier name: (_) @import.name @import.local !alias (#set! import.exported "true"))
(export_specifier name: (_) @import.name alias: (_) @import.local (#set! import.exported "true"))
(export_statement "default" value: (identifier) @import.name
  (#set! import.local "default") (#set! import.exported "true"))
(export_statement "default" declaration: (_ name: (_) @import.name)
  (#set! import.local "default") (#set! import.exported "true"))
(export_statement "default" @import.name
  value: [(arrow_function) (function_expression !name) (generator_function !name) (class !name)]
  (#set! import.local "default") (#set! import.exported "true"))

; Imports by `require`, and by `import` as a function.
(variable_declarator value: (call_expression function: (identifier) @_require
    arguments: (arguments . (string) @import.module)) (#eq? @_require "require")) @import.statement
(variable_declarator value: (await_expression (call_expression function: (import)
    arguments: (arguments . (string) @import.module)))) @import.statement
(variable_declarator (object_pattern
  (shorthand_property_identifier_pattern) @import.name @import.local))
(variable_declarator (object_pattern
  (pair_pattern key: (_) @import.name value: (identifier) @import.local)))
(variable_declarator name: (identifier) @import.local
  value: (call_expression function: (identifier) @_require
    arguments: (arguments . (string) @import.module)) (#eq? @_require "require"))
(variable_declarator name: (identifier) @import.local
  value: (member_expression object: (call_expression function: (identifier) @_require
    arguments: (arguments . (string) @import.module)) property: (_) @import.name)
  (#eq? @_require "require"))
(variable_declarator name: (identifier) @import.local
  value: (await_expression (call_expression function: (import)
    arguments: (arguments . (string) @import.module))))
(expression_statement (call_expression function: (identifier) @_require
  arguments: (arguments . (string) @import.module .)) (#eq? @_require "require"))
(call_expression function: (import) arguments: (arguments . (string) @import.module))

; Exports of CommonJS.
(assignment_expression left: (member_expression) @_exports right: (identifier) @import.name
  (#eq? @_exports "module.exports")
  (#set! import.local "default") (#set! import.exported "true"))
(assignment_expression left: (member_expression) @_exports
  right: (object (shorthand_property_identifier) @import.name @import.local)
  (#eq? @_exports "module.exports") (#set! import.exported "true"))
(assignment_expression left: (member_expression) @_exports
  right: (object (pair key: (property_identifier) @import.local value: (identifier) @import.name))
  (#eq? @_exports "module.exports") (#set! import.exported "true"))
(assignment_expression
  left: (member_expression object: (_) @_exports property: (property_identifier) @import.local)
  right: (identifier) @import.name
  (#any-of? @_exports "exports" "module.exports") (#set! import.exported "true"))
