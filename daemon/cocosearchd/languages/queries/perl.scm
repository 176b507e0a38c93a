; A package reaches to the next one.
(package_statement name: (package) @name) @definition.namespace
(subroutine_declaration_statement name: (bareword) @name) @definition.function
