'use strict'
const fs = require('fs'), {a, b: c} = require("./ab.js"), D = require('./d').D
require('./side')
class A extends ns.B { x = new C(); static y = 1; #z; constructor(a, {b, c: d = 1}, [e], ...f) { super(a); this.q = new D(b, d, e, f) } foo() { return this.#z + helper(a) } }
function Foo(opts) { if (!(this instanceof Foo)) return new Foo(opts); this.opts = opts }
Foo.prototype.run = function run(cb) { cb(this.opts); var self = this; run(); process.nextTick(function () { self.go() }) }
module.exports = { A, foo: Foo, other() {} }
exports.x = Foo
Object.assign(Foo.prototype, mixin)
async function* gen() { yield* other(); for await (const x of gen()) x.y() }
label: for (var i in obj) { if (obj.hasOwnProperty(i)) continue label }
export const z = <div><Foo.Bar/></div>
