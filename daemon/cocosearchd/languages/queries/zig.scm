; Functions, containers bound to a name, tests.
(Decl (FnProto function: (IDENTIFIER) @name) (Block)? @body) @definition.function
(Decl (VarDecl variable_type_function: (IDENTIFIER) @name
  (ErrorUnionExpr (SuffixExpr (ContainerDecl (ContainerDeclType) @_type) @body))
  (#match? @_type "^struct|^opaque"))) @definition.struct
(Decl (VarDecl variable_type_function: (IDENTIFIER) @name
  (ErrorUnionExpr (SuffixExpr (ContainerDecl (ContainerDeclType) @_type) @body)) (#match? @_type "^enum"))) @definition.enum
(Decl (VarDecl variable_type_function: (IDENTIFIER) @name
  (ErrorUnionExpr (SuffixExpr (ContainerDecl (ContainerDeclType) @_type) @body)) (#match? @_type "^union"))) @definition.union
(TestDecl (STRINGLITERALSINGLE) @label (Block) @body) @definition.test
(source_file (Decl (VarDecl variable_type_function: (IDENTIFIER) @name)) @definition.constant)
