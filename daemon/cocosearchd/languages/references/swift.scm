; Imports, uses, variables and their types of Swift. `reference_query.py` explains the captures.

; Names, chains, calls and types.
(simple_identifier) @name
(navigation_expression target: (_) @receiver
  suffix: (navigation_suffix suffix: (simple_identifier) @name))
(call_expression . (simple_identifier) @call)
(call_expression . (navigation_expression target: (_) @receiver
  suffix: (navigation_suffix suffix: (simple_identifier) @call)))
(user_type (type_identifier) @type .)
(inheritance_specifier inherits_from: (user_type (type_identifier) @inherit .))

; Identifiers that are no uses.
[(class_declaration name: (type_identifier) @definition)
 (protocol_declaration name: (type_identifier) @definition)
 (typealias_declaration name: (type_identifier) @definition)
 (associatedtype_declaration name: (type_identifier) @definition)
 (function_declaration name: (simple_identifier) @definition)
 (protocol_function_declaration name: (simple_identifier) @definition)
 (enum_entry name: (simple_identifier) @definition)
 (class_body (property_declaration name: (pattern bound_identifier: (simple_identifier) @definition)))]
[(import_declaration) (value_argument_label)] @ignored
(parameter external_name: (simple_identifier) @ignored)

; Scopes and their variables.
[(function_declaration) (init_declaration) (protocol_function_declaration) (lambda_literal)
 (statements) (for_statement) (if_statement) (catch_block) (switch_entry)
 (computed_property)] @scope
[(parameter name: (simple_identifier) @variable)
 (lambda_parameter name: (simple_identifier) @variable)
 (pattern bound_identifier: (simple_identifier) @variable)
 (property_declaration name: (pattern (pattern (simple_identifier) @variable)))
 (if_statement bound_identifier: (simple_identifier) @variable)
 (guard_statement bound_identifier: (simple_identifier) @variable)
 (while_statement bound_identifier: (simple_identifier) @variable)]
[(class_declaration) (protocol_declaration) (function_declaration) (init_declaration)
 (typealias_declaration)] @scope.type_parameters
(type_parameter . (type_identifier) @type_parameter)

; Types and values of variables, properties and results.
(parameter name: (simple_identifier) @binding [(user_type) (optional_type)] @binding.type)
(property_declaration name: (pattern bound_identifier: (simple_identifier) @binding)
  (type_annotation (_) @binding.type))
(property_declaration name: (pattern bound_identifier: (simple_identifier) @binding) value: [
  (call_expression . (_) @binding.call)
  (simple_identifier) @binding.value
  (navigation_expression) @binding.value])
(if_statement bound_identifier: (simple_identifier) @binding [
  (simple_identifier) @binding.value
  (navigation_expression) @binding.value
  (as_expression (user_type) @binding.type)])
(for_statement item: (pattern bound_identifier: (simple_identifier) @binding)
  collection: (_) @binding.element)
(function_declaration name: (simple_identifier) name: [(user_type) (optional_type)] @binding.return)
(protocol_function_declaration name: (simple_identifier)
  name: [(user_type) (optional_type)] @binding.return)
(typealias_declaration name: (type_identifier) @binding (user_type) @binding.value)

; Imports: all names of a module.
((import_declaration (identifier) @import.module) (#set! import.name "*"))
