; Modules, programs, types, procedures.
(module (module_statement (name) @name)) @definition.module
(submodule (submodule_statement (name) @name)) @definition.module
(program (program_statement (name) @name)) @definition.module
(derived_type_definition (derived_type_statement (type_name) @name)) @definition.struct
(subroutine (subroutine_statement name: (name) @name)) @definition.function
(function (function_statement name: (name) @name)) @definition.function
(interface (interface_statement (name) @name)) @definition.interface
