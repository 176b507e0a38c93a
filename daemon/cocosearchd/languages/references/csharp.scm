; Imports, uses, variables and their types of C#. `reference_query.py` explains the captures.

; Names, chains, calls and types. Types are identifiers here.
(identifier) @name
(qualified_name) @type
(member_access_expression name: (identifier)) @name
(member_access_expression expression: (_) @receiver name: (generic_name . (identifier) @name))
(invocation_expression function: [(identifier) (member_access_expression name: (identifier))] @call)
(invocation_expression function: (generic_name . (identifier) @call))
(invocation_expression function: (member_access_expression expression: (_) @receiver
  name: (generic_name . (identifier) @call)))
(conditional_access_expression condition: (_) @receiver
  (member_binding_expression name: (identifier) @call))
(object_creation_expression type: [(identifier) (qualified_name)] @call)
(object_creation_expression type: (generic_name . (identifier) @call))
(attribute name: [(identifier) (qualified_name)] @type)
(base_list [(identifier) (qualified_name)] @inherit)
(base_list (generic_name . (identifier) @inherit))
(base_list (primary_constructor_base_type type: [(identifier) (qualified_name)] @inherit))
[(parameter type: (_) @types)
 (variable_declaration type: (_) @types)
 (property_declaration type: (_) @types)
 (method_declaration returns: (_) @types)
 (delegate_declaration type: (_) @types)
 (cast_expression type: (_) @types)
 (as_expression right: (_) @types)
 (is_expression right: (_) @types)
 (typeof_expression type: (_) @types)
 (default_expression type: (_) @types)
 (declaration_pattern type: (_) @types)
 (catch_declaration type: (_) @types)
 (foreach_statement type: (_) @types)
 (array_type) @types
 (type_argument_list) @types
 (type_parameter_constraint) @types]

; Identifiers that are no uses.
[(class_declaration name: (identifier) @definition)
 (struct_declaration name: (identifier) @definition)
 (record_declaration name: (identifier) @definition)
 (interface_declaration name: (identifier) @definition)
 (enum_declaration name: (identifier) @definition)
 (enum_member_declaration name: (identifier) @definition)
 (delegate_declaration name: (identifier) @definition)
 (method_declaration name: (identifier) @definition)
 (constructor_declaration name: (identifier) @definition)
 (destructor_declaration name: (identifier) @definition)
 (property_declaration name: (identifier) @definition)
 (local_function_statement name: (identifier) @definition)
 (event_declaration name: (identifier) @definition)
 (field_declaration (variable_declaration (variable_declarator name: (identifier) @definition)))
 (event_field_declaration
   (variable_declaration (variable_declarator name: (identifier) @definition)))]
(using_directive) @ignored
(argument name: (identifier) @ignored)
(namespace_declaration name: (_) @ignored)
(file_scoped_namespace_declaration name: (_) @ignored)
(initializer_expression (assignment_expression left: (identifier) @ignored))

; Scopes and their variables.
(method_declaration parameters: (_) @parameters body: (_) @scope)
(constructor_declaration parameters: (_) @parameters body: (_) @scope)
(local_function_statement parameters: (_) @parameters body: (_) @scope)
(lambda_expression parameters: (_) @parameters body: (_) @scope)
[(block) (for_statement) (foreach_statement) (catch_clause) (using_statement) (switch_section)
 (method_declaration) (constructor_declaration) (delegate_declaration)
 (record_declaration)] @scope
[(parameter name: (identifier) @variable)
 (implicit_parameter) @variable
 (local_declaration_statement
   (variable_declaration (variable_declarator name: (identifier) @variable)))
 (using_statement (variable_declaration (variable_declarator name: (identifier) @variable)))
 (for_statement (variable_declaration (variable_declarator name: (identifier) @variable)))
 (foreach_statement left: (identifier) @variable)
 (catch_declaration name: (identifier) @variable)
 (declaration_pattern name: (identifier) @variable)
 (declaration_expression name: (identifier) @variable)]
[(class_declaration) (struct_declaration) (interface_declaration) (record_declaration)
 (method_declaration) (delegate_declaration) (local_function_statement)] @scope.type_parameters
(type_parameter name: (identifier) @type_parameter)

; Types and values of variables, fields and results.
(parameter type: (_) @binding.type name: (identifier) @binding)
(catch_declaration type: (_) @binding.type name: (identifier) @binding)
(declaration_pattern type: (_) @binding.type name: (identifier) @binding)
(property_declaration type: (_) @binding.type name: (identifier) @binding)
(variable_declaration type: [(identifier) (qualified_name) (generic_name) (nullable_type)
  (array_type)] @binding.type (variable_declarator name: (identifier) @binding))
(variable_declaration type: (implicit_type) (variable_declarator name: (identifier) @binding [
  (invocation_expression function: (_) @binding.call)
  (await_expression (invocation_expression function: (_) @binding.call))
  (object_creation_expression type: (_) @binding.type)
  [(identifier) (member_access_expression)] @binding.value]))
(foreach_statement type: (implicit_type) left: (identifier) @binding right: (_) @binding.element)
(foreach_statement type: [(identifier) (qualified_name) (generic_name)] @binding.type
  left: (identifier) @binding)
(method_declaration returns: (_) @binding.return)
(local_function_statement type: (_) @binding.return)

; Imports: the names of a namespace.
(namespace_declaration name: (_) @package)
(file_scoped_namespace_declaration name: (_) @package)
((using_directive !name [(identifier) (qualified_name)] @import.module)
  (#set! import.name "*"))
(using_directive name: (identifier) @import.local
  (qualified_name qualifier: (_) @import.module name: (identifier) @import.name))
