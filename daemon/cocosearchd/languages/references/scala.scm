; Imports, uses, variables and their types of Scala. `reference_query.py` explains the captures.

; Names, chains, calls and types.
(identifier) @name
(field_expression value: (_) @receiver field: (identifier) @name)
(call_expression function: (identifier) @call)
(call_expression function: (field_expression value: (_) @receiver field: (identifier) @call))
(call_expression function: (generic_function function: (identifier) @call))
(call_expression function: (generic_function function: (field_expression value: (_) @receiver
  field: (identifier) @call)))
(infix_expression left: (_) @receiver operator: (identifier) @call)
[(type_identifier) (stable_type_identifier)] @type
(instance_expression . (type_identifier) @call)
(instance_expression . (generic_type type: (type_identifier) @call))
(extends_clause (type_identifier) @inherit)
(extends_clause (generic_type type: (type_identifier) @inherit))

; Identifiers that are no uses.
[(class_definition name: (identifier) @definition)
 (object_definition name: (identifier) @definition)
 (trait_definition name: (identifier) @definition)
 (enum_definition name: (identifier) @definition)
 (simple_enum_case name: (identifier) @definition)
 (full_enum_case name: (identifier) @definition)
 (type_definition name: (type_identifier) @definition)
 (function_definition name: (identifier) @definition)
 (function_declaration name: (identifier) @definition)
 (given_definition name: (identifier) @definition)
 (template_body (val_definition pattern: (identifier) @definition))
 (template_body (var_definition pattern: (identifier) @definition))]
[(import_declaration) (package_clause)] @ignored
((identifier) @ignored (#any-of? @ignored "this" "super"))

; Scopes and their variables.
(function_definition) @scope
[(block) (case_clause) (for_expression) (lambda_expression) (function_declaration)] @scope
[(parameter name: (identifier) @variable)
 (class_parameter name: (identifier) @variable)
 (lambda_expression parameters: (identifier) @variable)
 (binding name: (identifier) @variable)
 (val_definition pattern: (identifier) @variable)
 (var_definition pattern: (identifier) @variable)
 (enumerator . (identifier) @variable)
 (typed_pattern pattern: (identifier) @variable)
 (tuple_pattern (identifier) @variable)]
((case_clause pattern: (identifier) @variable) (#match? @variable "^[a-z_]"))
((case_class_pattern pattern: (identifier) @variable) (#match? @variable "^[a-z_]"))
[(class_definition) (trait_definition) (enum_definition) (function_definition)
 (function_declaration) (type_definition)] @scope.type_parameters
(type_parameters name: (identifier) @type_parameter)

; Types and values of variables, members and results.
(parameter name: (identifier) @binding type: (_) @binding.type)
(class_parameter name: (identifier) @binding type: (_) @binding.type)
(val_definition pattern: (identifier) @binding type: (_) @binding.type)
(var_definition pattern: (identifier) @binding type: (_) @binding.type)
(val_definition pattern: (identifier) @binding !type value: [
  (call_expression function: (_) @binding.call)
  (instance_expression . (_) @binding.type)
  (identifier) @binding.value
  (field_expression) @binding.value])
(var_definition pattern: (identifier) @binding !type value: [
  (call_expression function: (_) @binding.call)
  (instance_expression . (_) @binding.type)])
(typed_pattern pattern: (identifier) @binding type: (_) @binding.type)
(enumerator . (identifier) @binding . (_) @binding.element .)
(function_definition return_type: (_) @binding.return)
(function_declaration return_type: (_) @binding.return)
(type_definition name: (type_identifier) @binding type: (_) @binding.value)

; Imports.
(package_clause name: (package_identifier) @package)
(import_declaration) @import.tree
