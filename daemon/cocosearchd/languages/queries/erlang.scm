; Functions (adjacent clauses are one) and records.
(fun_decl clause: (function_clause name: (atom) @name body: (_) @body)) @clause.function
(record_decl name: (atom) @name) @definition.struct
