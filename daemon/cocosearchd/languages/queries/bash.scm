; Functions, and names declared at the top level.
(function_definition name: (word) @name) @definition.function
(program (declaration_command (variable_assignment name: (variable_name) @name)) @definition.constant)
