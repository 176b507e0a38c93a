; Imports, uses, variables and their types of PHP. `reference_query.py` explains the captures.

; Names, calls and types. Variables begin with `$` and are no uses; neither are properties.
(function_call_expression function: [(name) (qualified_name)] @call)
(member_call_expression object: (_) @receiver name: (name) @call)
(nullsafe_member_call_expression object: (_) @receiver name: (name) @call)
(scoped_call_expression scope: (_) @receiver name: (name) @call)
(scoped_call_expression scope: [(name) (qualified_name)] @name)
(class_constant_access_expression . (_) @receiver (name) @name .)
(class_constant_access_expression . [(name) (qualified_name)] @name)
(scoped_property_access_expression scope: [(name) (qualified_name)] @name)
(object_creation_expression [(name) (qualified_name)] @call)
(named_type [(name) (qualified_name)] @type)
(binary_expression right: [(name) (qualified_name)] @name)
(attribute [(name) (qualified_name)] @type)
(base_clause [(name) (qualified_name)] @inherit)
(class_interface_clause [(name) (qualified_name)] @inherit)
(use_declaration [(name) (qualified_name)] @inherit)
(argument (name) @name)
(array_element_initializer (name) @name)
(return_statement (name) @name)
((class_constant_access_expression (name) @ignored .) (#eq? @ignored "class"))

; Scopes and their variables.
(function_definition parameters: (_) @parameters body: (_) @scope)
(method_declaration parameters: (_) @parameters body: (_) @scope)
(anonymous_function parameters: (_) @parameters body: (_) @scope)
(arrow_function parameters: (_) @parameters body: (_) @scope)
[(simple_parameter name: (variable_name) @variable)
 (property_promotion_parameter name: (variable_name) @variable)
 (variadic_parameter name: (variable_name) @variable)
 (assignment_expression left: (variable_name) @variable)
 (foreach_statement (variable_name) @variable)
 (pair (variable_name) @variable)
 (catch_clause name: (variable_name) @variable)
 (list_literal (variable_name) @variable)]

; Types and values of variables, properties and results.
(simple_parameter type: (_) @binding.type name: (variable_name) @binding)
(property_promotion_parameter type: (_) @binding.type name: (variable_name (name) @binding))
(property_promotion_parameter type: (_) @binding.type name: (variable_name) @binding)
(property_declaration type: (_) @binding.type (property_element (variable_name (name) @binding)))
(catch_clause type: (_) @binding.type name: (variable_name) @binding)
(assignment_expression left: [(variable_name) (member_access_expression)] @binding right: [
  (object_creation_expression [(name) (qualified_name)] @binding.type)
  (function_call_expression) @binding.value
  (member_call_expression) @binding.value
  (scoped_call_expression) @binding.value
  (member_access_expression) @binding.value
  (variable_name) @binding.value])
(foreach_statement . (_) @binding.element . (variable_name) @binding)
(foreach_statement . (_) @binding.element . (pair (_) (variable_name) @binding))
(method_declaration return_type: (_) @binding.return)
(function_definition return_type: (_) @binding.return)

; Imports.
(namespace_definition name: (namespace_name) @package)
(namespace_use_declaration) @import.tree
((require_once_expression (string (string_content) @import.module)) (#set! import.name "*"))
((require_expression (string (string_content) @import.module)) (#set! import.name "*"))
((include_expression (string (string_content) @import.module)) (#set! import.name "*"))
((include_once_expression (string (string_content) @import.module)) (#set! import.name "*"))
((require_once_expression (binary_expression right: (string (string_content) @import.module)))
  (#set! import.name "*"))
((require_expression (binary_expression right: (string (string_content) @import.module)))
  (#set! import.name "*"))
