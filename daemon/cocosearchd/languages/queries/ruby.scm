; Modules, classes, methods (functions at the top level), constants.
(module name: (_) @name) @definition.module
(class name: (_) @name) @definition.class
(program (method name: (_) @name) @definition.function)
(method name: (_) @name) @definition.method
(singleton_method name: (_) @name) @definition.method
(assignment left: (constant) @name right: (call
  receiver: (constant) @_class method: (identifier) @_new
  (#any-of? @_class "Struct" "Class" "Data" "Module") (#any-of? @_new "new" "define"))) @definition.class
(program (assignment left: (constant) @name) @definition.constant)
(body_statement (assignment left: (constant) @name) @definition.constant)
