; Imports, uses, variables and their types of Go. `reference_query.py` explains the captures.

; Names, chains `a.b.c`, calls and types. An embedded type is a base: its members are promoted.
(identifier) @name
(selector_expression) @name
(call_expression function: [(identifier) (selector_expression)] @call)
(call_expression function: (parenthesized_expression [(identifier) (selector_expression)] @call))
(type_conversion_expression type: (generic_type type: [(type_identifier) (qualified_type)] @call))
[(type_identifier) (qualified_type)] @type
(field_declaration !name type: [(type_identifier) (qualified_type)] @inherit)
(field_declaration !name type: (generic_type type: [(type_identifier) (qualified_type)] @inherit))
(interface_type (type_elem . [(type_identifier) (qualified_type)] @inherit .))

; Identifiers that are no uses.
(function_declaration name: (identifier) @definition)
(type_spec name: (type_identifier) @definition)
(type_alias name: (type_identifier) @definition)
(composite_literal type: [(type_identifier) (qualified_type) (generic_type)]
  body: (literal_value (keyed_element key: (literal_element (identifier) @ignored))))
(literal_element (literal_value (keyed_element key: (literal_element (identifier) @ignored))))

; Scopes and their variables.
(function_declaration parameters: (_) @parameters body: (block) @scope)
(method_declaration receiver: (_) @parameters body: (block) @scope)
(func_literal parameters: (_) @parameters body: (block) @scope)
(function_type parameters: (_) @scope)
(method_elem) @scope
[(block) (if_statement) (for_statement) (expression_switch_statement) (type_switch_statement)
 (expression_case) (type_case) (default_case) (communication_case)] @scope
[(parameter_declaration name: (identifier) @variable)
 (variadic_parameter_declaration name: (identifier) @variable)
 (short_var_declaration left: (expression_list (identifier) @variable))
 (range_clause left: (expression_list (identifier) @variable))
 (receive_statement left: (expression_list (identifier) @variable))
 (type_switch_statement alias: (expression_list (identifier) @variable))
 (var_spec name: (identifier) @variable)
 (const_spec name: (identifier) @variable)]
[(function_declaration) (type_spec)] @scope.type_parameters
(type_parameter_declaration name: (identifier) @type_parameter)

; Types and values of variables, fields and results.
(parameter_declaration name: (identifier) @binding type: (_) @binding.type)
(field_declaration name: (field_identifier) @binding type: (_) @binding.type)
(field_declaration !name type: (type_identifier) @binding @binding.type)
(field_declaration !name type: (qualified_type name: (_) @binding) @binding.type)
(function_declaration result: [(type_identifier) (qualified_type) (pointer_type) (slice_type)
  (array_type) (map_type) (generic_type) (function_type) (channel_type)] @binding.return)
(function_declaration result: (parameter_list . (parameter_declaration type: (_) @binding.return)))
(method_declaration result: [(type_identifier) (qualified_type) (pointer_type) (slice_type)
  (array_type) (map_type) (generic_type) (function_type) (channel_type)] @binding.return)
(method_declaration result: (parameter_list . (parameter_declaration type: (_) @binding.return)))
(method_elem result: [(type_identifier) (qualified_type) (pointer_type) (slice_type)
  (array_type) (map_type) (generic_type) (function_type) (channel_type)] @binding.return)
(method_elem result: (parameter_list . (parameter_declaration type: (_) @binding.return)))
(var_spec name: (identifier) @binding type: (_) @binding.type)
(var_spec . name: (identifier) @binding value: (expression_list . [
  (call_expression function: (_) @binding.call)
  (composite_literal type: (_) @binding.type)
  (unary_expression operand: (composite_literal type: (_) @binding.type))
  [(identifier) (selector_expression)] @binding.value]))
(short_var_declaration left: (expression_list . (identifier) @binding) right: (expression_list . [
  (call_expression function: (_) @binding.call)
  (composite_literal type: (_) @binding.type)
  (unary_expression operand: (composite_literal type: (_) @binding.type))
  (unary_expression operand: [(identifier) (selector_expression)] @binding.value)
  (type_assertion_expression type: (_) @binding.type)
  (index_expression operand: (_) @binding.element)
  [(identifier) (selector_expression)] @binding.value]))
(short_var_declaration left: (expression_list . (_) . (identifier) @binding)
  right: (expression_list . (_) . [
  (call_expression function: (_) @binding.call)
  (composite_literal type: (_) @binding.type)
  (unary_expression operand: (composite_literal type: (_) @binding.type))
  [(identifier) (selector_expression)] @binding.value]))
((short_var_declaration left: (expression_list . (identifier) @binding)
  right: (expression_list . (call_expression function: (identifier) @_new
    arguments: (argument_list . (type_identifier) @binding.type)))) (#eq? @_new "new"))
(range_clause left: (expression_list (_) . (identifier) @binding) right: (_) @binding.element)
(type_alias name: (type_identifier) @binding type: (_) @binding.value)

; Imports: the name of a package is the last part of its path, unless it is renamed.
(package_clause (package_identifier) @package)
((import_spec !name path: (interpreted_string_literal) @import.module)
  (#set! import.local "(last)"))
(import_spec name: (package_identifier) @import.local path: (interpreted_string_literal) @import.module)
((import_spec name: (dot) path: (interpreted_string_literal) @import.module)
  (#set! import.name "*"))
