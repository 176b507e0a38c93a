; Imports and uses of shell scripts. `reference_query.py` explains the captures.

; Commands: functions of this file, or of a file that it reads.
(command name: (command_name (word) @call))
((command name: (command_name (word) @_trap) . argument: (word) @name) (#eq? @_trap "trap"))
((command name: (command_name (word) @_declare) argument: (word) @name)
  (#any-of? @_declare "command" "type" "exec" "eval" "xargs"))
((simple_expansion (variable_name) @name) (#match? @name "^[A-Za-z_]"))
((expansion (variable_name) @name) (#match? @name "^[A-Za-z_]"))
(function_definition name: (word) @definition)
((command name: (command_name (word) @ignored)) (#any-of? @ignored "source" "." ":" "["))

; Scopes and their variables.
(function_definition body: (_) @scope)
(declaration_command "local" (variable_assignment name: (variable_name) @variable))
(declaration_command "local" (variable_name) @variable)

; Imports.
((command name: (command_name (word) @_source) . argument: (word) @import.module)
  (#any-of? @_source "source" ".") (#set! import.name "*"))
((command name: (command_name (word) @_source) . argument: (string) @import.module)
  (#any-of? @_source "source" ".") (#set! import.name "*"))
