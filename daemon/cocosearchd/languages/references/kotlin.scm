; Imports, uses, variables and their types of Kotlin. `reference_query.py` explains the captures.

; Names, chains, calls and types.
(simple_identifier) @name
(navigation_expression . (_) @receiver (navigation_suffix (simple_identifier) @name))
(call_expression . (simple_identifier) @call)
(call_expression . (navigation_expression . (_) @receiver
  (navigation_suffix (simple_identifier) @call)))
(infix_expression (_) @receiver . (simple_identifier) @call . (_))
(callable_reference (simple_identifier) @call)
(user_type (type_identifier) @type .)
(callable_reference . (type_identifier) @type)
(constructor_invocation (user_type (type_identifier) @call .))
(user_type (type_identifier) @type . (type_arguments) .)
(delegation_specifier (constructor_invocation (user_type . (type_identifier) @inherit)))
(delegation_specifier (user_type . (type_identifier) @inherit))
(explicit_delegation (user_type . (type_identifier) @inherit))

; Identifiers that are no uses.
[(class_declaration (type_identifier) @definition)
 (object_declaration (type_identifier) @definition)
 (companion_object (type_identifier) @definition)
 (type_alias . (type_identifier) @definition)
 (function_declaration (simple_identifier) @definition)
 (enum_entry . (simple_identifier) @definition)
 (class_body (property_declaration (variable_declaration (simple_identifier) @definition)))
 (source_file (property_declaration (variable_declaration (simple_identifier) @definition)))]
[(import_header) (package_header) (label)] @ignored
(value_argument . (simple_identifier) @ignored . "=")
((simple_identifier) @ignored (#any-of? @ignored "it" "field"))

; Scopes and their variables.
(function_declaration (function_value_parameters) @parameters (function_body) @scope)
(lambda_literal) @scope
[(control_structure_body) (for_statement) (catch_block) (when_expression) (function_declaration)
 (statements)] @scope
[(parameter (simple_identifier) @variable)
 (variable_declaration (simple_identifier) @variable)
 (catch_block . (simple_identifier) @variable)
 (class_parameter (simple_identifier) @variable)]
[(class_declaration) (function_declaration) (type_alias)] @scope.type_parameters
(type_parameter (type_identifier) @type_parameter)

; Types and values of variables, properties and results.
(parameter (simple_identifier) @binding [(user_type) (nullable_type)] @binding.type)
(class_parameter (simple_identifier) @binding [(user_type) (nullable_type)] @binding.type)
(variable_declaration (simple_identifier) @binding [(user_type) (nullable_type)] @binding.type)
(property_declaration (variable_declaration (simple_identifier) @binding .) . [
  (call_expression . (_) @binding.call)
  (simple_identifier) @binding.value
  (navigation_expression) @binding.value])
(for_statement (variable_declaration (simple_identifier) @binding) . (_) @binding.element)
(catch_block . (simple_identifier) @binding . (user_type) @binding.type)
(function_declaration (function_value_parameters) . [(user_type) (nullable_type)] @binding.return)
(type_alias . (type_identifier) @binding (user_type) @binding.value)

; Imports.
(package_header (identifier) @package)
(import_header) @import.tree
