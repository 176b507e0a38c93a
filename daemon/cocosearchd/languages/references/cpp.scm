; Imports, uses, variables and their types of C++. `reference_query.py` explains the captures.

; Names, paths `a::b`, calls and types. A member without a call is a field: that is no use.
(identifier) @name
(namespace_identifier) @name
(qualified_identifier scope: (_) @receiver name: [(identifier) (operator_name)] @name)
(qualified_identifier scope: (_) @receiver name: (type_identifier) @type)
(qualified_identifier scope: (_) @receiver name: (template_type name: (type_identifier) @type))
(qualified_identifier scope: (_) @receiver name: (template_function name: (identifier) @call))
(qualified_identifier scope: (_) @receiver
  name: (qualified_identifier name: [(identifier) (namespace_identifier)] @name))
(qualified_identifier scope: (_) @receiver name: (qualified_identifier name: (type_identifier) @type))
(qualified_identifier scope: (_) @receiver
  name: (qualified_identifier scope: (namespace_identifier) @name))
(qualified_identifier scope: (_) @receiver
  name: (qualified_identifier name: (qualified_identifier name: (identifier) @name)))
(call_expression function: (identifier) @call)
(call_expression function: (field_expression argument: (_) @receiver field: (field_identifier) @call))
(call_expression function: (field_expression argument: (_) @receiver
  field: (template_method name: (field_identifier) @call)))
(call_expression function: (template_function name: (identifier) @call))
(call_expression function: (qualified_identifier scope: (_) @receiver name: (identifier) @call))
(call_expression function: (qualified_identifier scope: (_) @receiver
  name: (qualified_identifier name: (identifier) @call)))
(type_identifier) @type
(new_expression type: (type_identifier) @call)
(new_expression type: (template_type name: (type_identifier) @call))
(base_class_clause (type_identifier) @inherit)
(base_class_clause (template_type name: (type_identifier) @inherit))
(base_class_clause (qualified_identifier scope: (_) @receiver name: [(type_identifier) @inherit
  (template_type name: (type_identifier) @inherit)]))
((field_initializer (field_identifier) @name) (#match? @name "^[A-Z]"))

; Identifiers that are no uses.
(function_declarator declarator: [(identifier) (operator_name)] @definition)
(function_declarator declarator: (qualified_identifier name: (identifier) @definition))
(function_declarator declarator: (qualified_identifier
  name: (qualified_identifier name: (identifier) @definition)))
(destructor_name) @ignored
[(preproc_def name: (identifier) @definition)
 (preproc_function_def name: (identifier) @definition)
 (enumerator name: (identifier) @definition)
 (concept_definition name: (identifier) @definition)
 (namespace_definition name: (namespace_identifier) @definition)
 (namespace_alias_definition name: (namespace_identifier) @definition)]
(class_specifier name: (type_identifier) @definition body: (_))
(class_specifier name: (type_identifier) @definition .)
(struct_specifier name: (type_identifier) @definition body: (_))
(union_specifier name: (type_identifier) @definition body: (_))
(enum_specifier name: (type_identifier) @definition body: (_))
(alias_declaration name: (type_identifier) @definition)
(type_definition declarator: (type_identifier) @definition)
(type_definition declarator: (pointer_declarator declarator: (type_identifier) @definition))
(using_declaration "namespace" (_) @ignored)

; Scopes and their variables.
(function_definition declarator: (_) @parameters body: (compound_statement) @scope)
(function_definition declarator: (_) @parameters (field_initializer_list) @scope)
; Parameters of declarations; those of definitions are variables of the body.
(declaration declarator: [(function_declarator parameters: (parameter_list) @scope)
  (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @scope))
  (reference_declarator (function_declarator parameters: (parameter_list) @scope))])
(field_declaration declarator: [(function_declarator parameters: (parameter_list) @scope)
  (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @scope))
  (reference_declarator (function_declarator parameters: (parameter_list) @scope))])
(parameter_declaration declarator: [(function_declarator parameters: (parameter_list) @scope)
  (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @scope))
  (reference_declarator (function_declarator parameters: (parameter_list) @scope))])
(type_definition declarator: [(function_declarator parameters: (parameter_list) @scope)
  (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @scope))
  (reference_declarator (function_declarator parameters: (parameter_list) @scope))])
(lambda_expression captures: (_) @parameters body: (compound_statement) @scope)
[(compound_statement) (for_statement) (for_range_loop) (catch_clause) (if_statement)
 (while_statement)] @scope
(preproc_function_def) @scope
(preproc_params (identifier) @variable)
[(parameter_declaration declarator: (identifier) @variable)
 (optional_parameter_declaration declarator: (identifier) @variable)
 (declaration declarator: (identifier) @variable)
 (init_declarator declarator: (identifier) @variable)
 (pointer_declarator declarator: (identifier) @variable)
 (reference_declarator (identifier) @variable)
 (array_declarator declarator: (identifier) @variable)
 (structured_binding_declarator (identifier) @variable)
 (for_range_loop declarator: (identifier) @variable)]
(template_declaration) @scope.type_parameters
(type_parameter_declaration (type_identifier) @type_parameter)

; Types and values of variables, fields and results.
(parameter_declaration type: (_) @binding.type declarator: [(identifier) @binding
  (pointer_declarator declarator: (identifier) @binding)
  (pointer_declarator declarator: (pointer_declarator declarator: (identifier) @binding))
  (reference_declarator (identifier) @binding)])
(declaration type: [(type_identifier) (qualified_identifier) (template_type) (struct_specifier)]
  @binding.type declarator: [(identifier) @binding
  (pointer_declarator declarator: (identifier) @binding)
  (reference_declarator (identifier) @binding)
  (array_declarator declarator: (identifier) @binding)
  (function_declarator declarator: (identifier) @binding)
  (init_declarator declarator: [(identifier) @binding
    (pointer_declarator declarator: (identifier) @binding)
    (reference_declarator (identifier) @binding)])])
(declaration type: (placeholder_type_specifier) declarator: (init_declarator declarator: [
    (identifier) @binding
    (pointer_declarator declarator: (identifier) @binding)
    (reference_declarator (identifier) @binding)]
  value: [(call_expression function: (_) @binding.call)
    (new_expression type: (_) @binding.type)
    [(identifier) (field_expression)] @binding.value]))
(for_range_loop type: [(type_identifier) (qualified_identifier) (template_type)] @binding.type
  declarator: [(identifier) @binding (reference_declarator (identifier) @binding)])
(for_range_loop type: (placeholder_type_specifier)
  declarator: [(identifier) @binding (reference_declarator (identifier) @binding)]
  right: (_) @binding.element)
(field_declaration type: (_) @binding.type declarator: [(field_identifier) @binding
  (pointer_declarator declarator: (field_identifier) @binding)
  (reference_declarator (field_identifier) @binding)
  (array_declarator declarator: (field_identifier) @binding)])
(function_definition type: [(type_identifier) (qualified_identifier) (template_type)] @binding.return)
(field_declaration type: [(type_identifier) (qualified_identifier) (template_type)] @binding.return
  declarator: [(function_declarator) (pointer_declarator declarator: (function_declarator))
  (reference_declarator (function_declarator))])
(declaration type: [(type_identifier) (qualified_identifier) (template_type)] @binding.return
  declarator: [(function_declarator) (pointer_declarator declarator: (function_declarator))
  (reference_declarator (function_declarator))])
(alias_declaration name: (type_identifier) @binding type: (_) @binding.value)
(type_definition type: (_) @binding.value declarator: (type_identifier) @binding)

; A test of GoogleTest is a method of its fixture: `TEST_F(Fixture, Name) {`.
(function_definition !type declarator: (function_declarator declarator: (identifier) @binding
  parameters: (parameter_list . (parameter_declaration type: (type_identifier) @binding.type
    !declarator) . (parameter_declaration type: (type_identifier) !declarator) .)))

; Imports.
((preproc_include path: [(string_literal (string_content) @import.module)
  (system_lib_string) @import.module]) (#set! import.name "*"))
