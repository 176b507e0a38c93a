; inherits: ecmascript

; Names of types.
(type_identifier) @type
(nested_type_identifier) @type
(nested_identifier) @name
(extends_clause value: [(identifier) (member_expression)] @inherit)
(implements_clause [(type_identifier) (nested_type_identifier)] @inherit)
(implements_clause (generic_type name: [(type_identifier) (nested_type_identifier)] @inherit))
(extends_type_clause type: [(type_identifier) (nested_type_identifier)] @inherit)
(extends_type_clause type: (generic_type name: [(type_identifier) (nested_type_identifier)] @inherit))

; Identifiers that are no uses.
[(class_declaration name: (type_identifier) @definition)
 (abstract_class_declaration name: (type_identifier) @definition)
 (class name: (type_identifier) @definition)
 (interface_declaration name: (type_identifier) @definition)
 (type_alias_declaration name: (type_identifier) @definition)
 (enum_declaration name: (identifier) @definition)
 (function_signature name: (identifier) @definition)]
(import_alias . (identifier) @definition)
(internal_module name: (_) @ignored)
(module name: (_) @ignored)
(type_predicate name: (identifier) @ignored)
(index_signature name: (identifier) @ignored)

; Variables and type parameters.
(required_parameter pattern: (identifier) @variable)
(optional_parameter pattern: (identifier) @variable)
(object_assignment_pattern left: (shorthand_property_identifier_pattern) @variable)
(type_parameter name: (type_identifier) @type_parameter)
(infer_type (type_identifier) @type_parameter)
(mapped_type_clause name: (type_identifier) @type_parameter)
[(class_declaration type_parameters: (_))
 (abstract_class_declaration type_parameters: (_))
 (class type_parameters: (_))
 (interface_declaration type_parameters: (_))
 (type_alias_declaration type_parameters: (_))
 (function_declaration type_parameters: (_))
 (function_signature type_parameters: (_))
 (function_expression type_parameters: (_))
 (generator_function_declaration type_parameters: (_))
 (generator_function type_parameters: (_))
 (method_definition type_parameters: (_))
 (method_signature type_parameters: (_))
 (abstract_method_signature type_parameters: (_))
 (arrow_function type_parameters: (_))
 (function_type type_parameters: (_))
 (constructor_type type_parameters: (_))
 (call_signature type_parameters: (_))
 (construct_signature type_parameters: (_)) (index_signature (mapped_type_clause))
 (conditional_type)] @scope.type_parameters

; Types and values of variables.
(variable_declarator name: (identifier) @binding type: (type_annotation (_) @binding.type))
(variable_declarator name: (identifier) @binding value: (as_expression (_) . (_) @binding.type))
(required_parameter pattern: (identifier) @binding type: (type_annotation (_) @binding.type))
(optional_parameter pattern: (identifier) @binding type: (type_annotation (_) @binding.type))
(required_parameter (accessibility_modifier) pattern: (identifier) @binding
  type: (type_annotation (_) @binding.type) (#set! binding.receiver "this"))
(optional_parameter (accessibility_modifier) pattern: (identifier) @binding
  type: (type_annotation (_) @binding.type) (#set! binding.receiver "this"))
(public_field_definition name: (property_identifier) @binding
  type: (type_annotation (_) @binding.type))
(public_field_definition name: (property_identifier) @binding
  value: [(call_expression function: (_) @binding.call)
          (new_expression constructor: (_) @binding.call)
          [(identifier) (member_expression)] @binding.value])
(property_signature name: (property_identifier) @binding type: (type_annotation (_) @binding.type))
(type_alias_declaration name: (type_identifier) @binding
  value: [(type_identifier) (nested_type_identifier) (generic_type) (union_type)
          (intersection_type)] @binding.value)
(import_alias . (identifier) @binding (_) @binding.value)
[(function_declaration return_type: (type_annotation (_) @binding.return))
 (generator_function_declaration return_type: (type_annotation (_) @binding.return))
 (function_signature return_type: (type_annotation (_) @binding.return))
 (method_definition return_type: (type_annotation (_) @binding.return))
 (method_signature return_type: (type_annotation (_) @binding.return))
 (abstract_method_signature return_type: (type_annotation (_) @binding.return))]
(variable_declarator value: [
  (arrow_function return_type: (type_annotation (_) @binding.return))
  (function_expression return_type: (type_annotation (_) @binding.return))])
(public_field_definition value: (arrow_function return_type: (type_annotation (_) @binding.return)))

; Imports and exports as assignments.
(import_statement (import_require_clause (identifier) @import.local source: (string) @import.module))
(export_statement "=" (identifier) @import.name
  (#set! import.local "default") (#set! import.exported "true"))
