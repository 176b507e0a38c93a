; Types, procedures and functions with the class they belong to; declarations alone are prototypes.
(declType name: (identifier) @name type: (declClass (kRecord))) @definition.struct
(declType name: (identifier) @name type: (declClass)) @definition.class
(declType name: (identifier) @name type: (declIntf)) @definition.interface
(declType name: (_) @name) @definition.type
(defProc header: (declProc name: (_) @name) body: (_) @body) @definition.function
(declSection (declProc name: (_) @name) @definition.prototype)
(interface (declProc name: (_) @name) @definition.prototype)
