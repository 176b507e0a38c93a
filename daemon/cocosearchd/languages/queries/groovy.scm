; The grammar knows commands and blocks only, so definitions are told by their words: types, methods, tasks of Gradle.
((command (unit (identifier) @_word) . (unit (identifier) @name) (block)) @definition.class
  (#match? @_word "^(class|trait)$"))
((command (unit (identifier) @_word) . (unit (identifier) @name) (block)) @definition.interface
  (#eq? @_word "interface"))
((command (unit (identifier) @_word) . (unit (identifier) @name) (block)) @definition.enum
  (#eq? @_word "enum"))
((command (unit (identifier) @_word) . (block . (unit (identifier) @name))) @definition.class
  (#match? @_word "^(class|trait)$"))
((command (unit (identifier) @_word) . (block . (unit (identifier) @name))) @definition.interface
  (#eq? @_word "interface"))
((command (unit (identifier) @_word) . (block . (unit (identifier) @name))) @definition.enum
  (#eq? @_word "enum"))
((command (unit (identifier) @_word) . (block . (unit (func (identifier) @name)))) @definition.function
  (#not-match? @_word "^(return|new|else|throw|assert|in|case)$"))
((command (unit (identifier) @_word) . (block . (unit (identifier) @name))) @definition.function
  (#eq? @_word "task"))
