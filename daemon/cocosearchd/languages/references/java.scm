; Imports, uses, variables and their types of Java. `reference_query.py` explains the captures.

; Names: identifiers in expressions, and where the grammar has no expression. More than half of all
; identifiers are declared, called or annotations: their matches would cost more than all others.
(primary_expression/identifier) @name
(assignment_expression left: (identifier) @name)
(scoped_identifier (identifier) @name)
(constant_declaration (variable_declarator name: (identifier) @name))
(resource . (identifier) @name .)
(type_pattern (identifier) @name)
(record_pattern (identifier) @name)
(record_pattern_component (identifier) @name)
(receiver_parameter (identifier) @name)
(module_declaration name: (identifier) @name)
(requires_module_directive (identifier) @name)
(exports_module_directive (identifier) @name)
(opens_module_directive (identifier) @name)
(uses_module_directive (identifier) @name)
(provides_module_directive (identifier) @name)
(ERROR (identifier) @name)
(ERROR (variable_declarator (identifier) @name))

; Chains, calls and types. A member without a call is a field: a use if it is a constant.
(field_access object: (_) @receiver field: (identifier) @name)
(method_invocation !object name: (identifier) @call)
(method_invocation object: (_) @receiver name: (identifier) @call)
(method_reference . (_) @receiver "::" (identifier) @call .)
(annotation name: [(identifier) (scoped_identifier)] @type)
(marker_annotation name: [(identifier) (scoped_identifier)] @type)
[(type_identifier) (scoped_type_identifier)] @type
(object_creation_expression type: [(type_identifier) (scoped_type_identifier)] @call)
(object_creation_expression type: (generic_type [(type_identifier) (scoped_type_identifier)] @call))
(superclass [(type_identifier) (scoped_type_identifier)] @inherit)
(superclass (generic_type . [(type_identifier) (scoped_type_identifier)] @inherit))
(type_list [(type_identifier) (scoped_type_identifier)] @inherit)
(type_list (generic_type . [(type_identifier) (scoped_type_identifier)] @inherit))

; Identifiers that are no uses.
[(class_declaration name: (identifier) @definition)
 (record_declaration name: (identifier) @definition)
 (interface_declaration name: (identifier) @definition)
 (annotation_type_declaration name: (identifier) @definition)
 (enum_declaration name: (identifier) @definition)
 (enum_constant name: (identifier) @definition)
 (method_declaration name: (identifier) @definition)
 (annotation_type_element_declaration name: (identifier) @definition)
 (constructor_declaration name: (identifier) @definition)
 (compact_constructor_declaration name: (identifier) @definition)
 (field_declaration declarator: (variable_declarator name: (identifier) @definition))]
[(import_declaration) (package_declaration)] @ignored
(element_value_pair key: (identifier) @ignored)
(labeled_statement . (identifier) @ignored)
(break_statement (identifier) @ignored)
(continue_statement (identifier) @ignored)
((field_access field: (identifier) @ignored) (#match? @ignored "^[a-z_]"))
((local_variable_declaration type: (type_identifier) @ignored) (#eq? @ignored "var"))

; Scopes and their variables.
(method_declaration parameters: (_) @parameters body: (block) @scope)
(constructor_declaration parameters: (_) @parameters body: (constructor_body) @scope)
(lambda_expression parameters: (_) @parameters body: (_) @scope)
[(block) (for_statement) (enhanced_for_statement) (catch_clause) (try_with_resources_statement)
 (switch_block_statement_group) (switch_rule) (method_declaration) (record_declaration)] @scope
[(formal_parameter name: (identifier) @variable)
 (spread_parameter (variable_declarator name: (identifier) @variable))
 (local_variable_declaration declarator: (variable_declarator name: (identifier) @variable))
 (enhanced_for_statement name: (identifier) @variable)
 (catch_formal_parameter name: (identifier) @variable)
 (resource name: (identifier) @variable)
 (instanceof_expression name: (identifier) @variable)
 (inferred_parameters (identifier) @variable)
 (lambda_expression parameters: (identifier) @variable)]
[(class_declaration) (interface_declaration) (record_declaration) (method_declaration)
 (constructor_declaration)] @scope.type_parameters
(type_parameter . (type_identifier) @type_parameter)

; Types and values of variables, fields and results.
(formal_parameter type: (_) @binding.type name: (identifier) @binding)
(catch_formal_parameter (catch_type) @binding.type name: (identifier) @binding)
(resource type: (_) @binding.type name: (identifier) @binding)
(instanceof_expression right: (_) @binding.type name: (identifier) @binding)
(enhanced_for_statement type: (_) @binding.type name: (identifier) @binding)
(field_declaration type: (_) @binding.type declarator: (variable_declarator name: (identifier) @binding))
(local_variable_declaration type: [(generic_type) (scoped_type_identifier) (array_type)] @binding.type
  declarator: (variable_declarator name: (identifier) @binding))
((local_variable_declaration type: (type_identifier) @binding.type
  declarator: (variable_declarator name: (identifier) @binding)) (#not-eq? @binding.type "var"))
((local_variable_declaration type: (type_identifier) @_var
  declarator: (variable_declarator name: (identifier) @binding value: [
    (method_invocation) @binding.value
    (object_creation_expression type: (_) @binding.type)])) (#eq? @_var "var"))
(method_declaration type: (_) @binding.return)
(annotation_type_element_declaration type: (_) @binding.return)

(type_parameter . (type_identifier) @binding (type_bound . (_) @binding.value))

; Imports.
(package_declaration [(identifier) (scoped_identifier)] @package)
(import_declaration (scoped_identifier scope: (_) @import.module
  name: (identifier) @import.name @import.local) . ";")
(import_declaration [(identifier) (scoped_identifier)] @import.module (asterisk) @import.name)
