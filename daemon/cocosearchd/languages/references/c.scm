; Imports, uses, variables and their types of C. `reference_query.py` explains the captures.

; Names, calls and types. A member without a call is a field: that is no use.
(identifier) @name
(call_expression function: [(identifier) (field_expression)] @call)
(type_identifier) @type

; Identifiers that are no uses.
(function_declarator declarator: (identifier) @definition)
[(preproc_def name: (identifier) @definition)
 (preproc_function_def name: (identifier) @definition)
 (enumerator name: (identifier) @definition)]
(struct_specifier name: (type_identifier) @definition body: (_))
(union_specifier name: (type_identifier) @definition body: (_))
(enum_specifier name: (type_identifier) @definition body: (_))
(type_definition declarator: (type_identifier) @definition)
(type_definition declarator: (pointer_declarator declarator: (type_identifier) @definition))

; Scopes and their variables.
(function_definition declarator: (_) @parameters body: (compound_statement) @scope)
; Parameters of declarations; those of definitions are variables of the body.
(declaration declarator: [(function_declarator parameters: (parameter_list) @scope)
  (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @scope))])
(field_declaration declarator: [(function_declarator parameters: (parameter_list) @scope)
  (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @scope))])
(parameter_declaration declarator: [(function_declarator parameters: (parameter_list) @scope)
  (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @scope))])
(type_definition declarator: [(function_declarator parameters: (parameter_list) @scope)
  (pointer_declarator declarator: (function_declarator parameters: (parameter_list) @scope))])
[(compound_statement) (for_statement)] @scope
(preproc_function_def) @scope
(preproc_params (identifier) @variable)
[(parameter_declaration declarator: (identifier) @variable)
 (declaration declarator: (identifier) @variable)
 (init_declarator declarator: (identifier) @variable)
 (pointer_declarator declarator: (identifier) @variable)
 (array_declarator declarator: (identifier) @variable)]

; Types and values of variables, fields and results.
(parameter_declaration type: (_) @binding.type declarator: [(identifier) @binding
  (pointer_declarator declarator: (identifier) @binding)])
(declaration type: (_) @binding.type declarator: [(identifier) @binding
  (pointer_declarator declarator: (identifier) @binding)
  (init_declarator declarator: [(identifier) @binding
    (pointer_declarator declarator: (identifier) @binding)])])
(field_declaration type: (_) @binding.type declarator: [(field_identifier) @binding
  (pointer_declarator declarator: (field_identifier) @binding)])
(function_definition type: [(type_identifier) (struct_specifier)] @binding.return)

; Imports.
((preproc_include path: [(string_literal (string_content) @import.module)
  (system_lib_string) @import.module]) (#set! import.name "*"))
