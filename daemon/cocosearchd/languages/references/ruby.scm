; Imports, uses, variables and their types of Ruby. `reference_query.py` explains the captures.

; Names, chains and calls. A name alone may be a call without arguments.
(constant) @name
(identifier) @call
(scope_resolution) @name
(call !receiver method: [(identifier) (constant)] @call)
(call receiver: (_) @receiver method: [(identifier) (constant)] @call)
(superclass [(constant) (scope_resolution)] @inherit)
((call !receiver method: (identifier) @_include
  arguments: (argument_list [(constant) (scope_resolution)] @inherit))
  (#any-of? @_include "include" "extend" "prepend"))

; Identifiers that are no uses.
[(class name: (constant) @definition)
 (module name: (constant) @definition)
 (method name: [(identifier) (constant) (setter (identifier))] @definition)
 (singleton_method name: [(identifier) (constant)] @definition)
 (assignment left: (constant) @definition)
 (alias name: (identifier) @definition)
 (keyword_parameter name: (identifier) @definition)]
(class name: (scope_resolution name: (constant) @definition))
((call !receiver method: (identifier) @ignored)
  (#any-of? @ignored "require" "require_relative" "load" "include" "extend" "prepend"
    "attr_reader" "attr_writer" "attr_accessor" "private" "public" "protected" "raise" "puts"))

; Scopes and their variables.
(method parameters: (_) @parameters body: (body_statement) @scope)
(singleton_method parameters: (_) @parameters body: (body_statement) @scope)
(block parameters: (_) @parameters body: (_) @scope)
(do_block parameters: (_) @parameters body: (_) @scope)
(lambda parameters: (_) @parameters body: (_) @scope)
[(method) (singleton_method) (block) (do_block) (lambda)] @scope
[(method_parameters (identifier) @variable)
 (block_parameters (identifier) @variable)
 (lambda_parameters (identifier) @variable)
 (destructured_parameter (identifier) @variable)
 (optional_parameter name: (identifier) @variable)
 (keyword_parameter name: (identifier) @variable)
 (splat_parameter name: (identifier) @variable)
 (hash_splat_parameter name: (identifier) @variable)
 (block_parameter name: (identifier) @variable)
 (exception_variable (identifier) @variable)
 (assignment left: (identifier) @variable)
 (operator_assignment left: (identifier) @variable)
 (left_assignment_list (identifier) @variable)
 (for pattern: (identifier) @variable)]

; Values of variables.
(assignment left: [(identifier) (instance_variable)] @binding
  right: [(call receiver: (_) method: (_) !arguments) @binding.value
    (call receiver: (constant) method: (identifier) arguments: (_)) @binding.value
    (call !receiver method: (identifier) @binding.call)
    (constant) @binding.value (scope_resolution) @binding.value
    (instance_variable) @binding.value])

; Imports.
((call !receiver method: (identifier) @_require
  arguments: (argument_list (string (string_content) @import.module)))
  (#any-of? @_require "require" "load") (#set! import.name "*"))
((call !receiver method: (identifier) @_require
  arguments: (argument_list (string . (string_content) @import.module)))
  (#eq? @_require "require_relative") (#set! import.name "*"))
