; Imports, uses, variables and their types of Python. `reference_query.py` explains the captures.

; Names: identifiers in expressions that nothing below says otherwise of, and every chain `a.b.c`.
; Half of all identifiers are no expressions: their matches would cost more than all others.
(primary_expression/identifier) @name
(attribute) @name
(generic_type . (identifier) @name)
(augmented_assignment left: (identifier) @name)
(global_statement (identifier) @name @outer)
(nonlocal_statement (identifier) @name @outer)
(list_splat (identifier) @name)
(case_pattern (dotted_name (identifier) @name))
(class_pattern (dotted_name (identifier) @name))
(union_pattern (dotted_name (identifier) @name))
(dict_pattern (dotted_name (identifier) @name))
(keyword_pattern (dotted_name (identifier) @name))
(ERROR (identifier) @name)
(call function: [(identifier) (attribute)] @call)
(decorator [(identifier) (attribute)] @call)
(class_definition superclasses: (argument_list [(identifier) (attribute)] @inherit))
(class_definition superclasses: (argument_list (subscript value: [(identifier) (attribute)] @inherit)))
(class_pattern . (dotted_name) @type)
(case_pattern (dotted_name (identifier) (identifier)) @name)
(type) @types
(type (string (string_content) @quoted_type))
(generic_type . (identifier) @_generic (#eq? @_generic "Literal")) @no_types

; Identifiers that are no uses.
(type_alias_statement left: (type (identifier) @definition))
(type_alias_statement left: (type (generic_type . (identifier) @definition)))
(future_import_statement) @ignored
(import_statement) @ignored
(import_from_statement) @ignored

; Scopes and their variables.
(function_definition parameters: (parameters) @parameters body: (block) @scope)
(lambda parameters: (lambda_parameters) @parameters body: (_) @scope)
(class_definition body: (block) @scope.members)
[(list_comprehension) (set_comprehension) (dictionary_comprehension) (generator_expression)] @scope
[(parameters (identifier) @variable)
 (lambda_parameters (identifier) @variable)
 (typed_parameter . (identifier) @variable)
 (default_parameter name: (identifier) @variable)
 (list_splat_pattern (identifier) @variable)
 (dictionary_splat_pattern (identifier) @variable)
 (pattern_list (identifier) @variable)
 (tuple_pattern (identifier) @variable)
 (list_pattern (identifier) @variable)
 (as_pattern_target [(identifier) @variable (tuple (identifier) @variable)])
 (case_pattern (dotted_name . (identifier) @variable .))
 (splat_pattern (identifier) @variable)
 (named_expression name: (identifier) @variable)]
(function_definition type_parameters: (type_parameter)) @scope.type_parameters
(class_definition type_parameters: (type_parameter)) @scope.type_parameters
(type_alias_statement) @scope.type_parameters
; Arguments of generics are nodes of the same type, and uses.
(function_definition type_parameters: (type_parameter (type (identifier) @type_parameter)))
(class_definition type_parameters: (type_parameter (type (identifier) @type_parameter)))
(type_alias_statement
  left: (type (generic_type (type_parameter (type (identifier) @type_parameter)))))

; Types and values of variables.
(typed_default_parameter name: (identifier) @variable @binding type: (type) @binding.type)
(typed_parameter . (identifier) @binding type: (type) @binding.type)
(default_parameter name: (identifier) @binding value: (call function: (_) @binding.call))
(function_definition return_type: (type) @binding.return)
(assignment left: (identifier) @variable)
(assignment left: [(identifier) (attribute)] @binding type: (type) @binding.type)
(assignment left: [(identifier) (attribute)] @binding
  right: [(call function: (_) @binding.call)
          (await (call function: (_) @binding.call))
          [(identifier) (attribute)] @binding.value])
(named_expression name: (identifier) @binding value: (call function: (_) @binding.call))
(as_pattern (call function: (_) @binding.call) alias: (as_pattern_target (identifier) @binding))
(except_clause value: (as_pattern [(identifier) (attribute)] @binding.type
  alias: (as_pattern_target (identifier) @binding)))
(for_statement left: (identifier) @variable)
(for_in_clause left: (identifier) @variable)
(for_statement left: (identifier) @binding right: (_) @binding.element)
(for_in_clause left: (identifier) @binding right: (_) @binding.element)

; Imports.
(import_statement name: (dotted_name) @import.module @import.local)
(import_statement name: (aliased_import name: (dotted_name) @import.module
  alias: (identifier) @import.local))
(import_from_statement module_name: (_) @import.module name: (dotted_name) @import.name @import.local)
(import_from_statement module_name: (_) @import.module
  name: (aliased_import name: (dotted_name) @import.name alias: (identifier) @import.local))
(import_from_statement module_name: (_) @import.module (wildcard_import) @import.name)
