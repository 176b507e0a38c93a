'use strict';

const http = require('http');
const DEFAULT_PORT = 8080, HOST = 'localhost';

/** Keeps carts in memory. */
export class CartStore extends EventEmitter {
  static instances = 0;
  #items = new Map();

  constructor(options = {}) {
    super();
    this.options = options;
  }

  get size() {
    return this.#items.size;
  }

  async addItem(cartId, { sku, count = 1 }) {
    const items = this.#items.get(cartId) ?? [];
    items.push({ sku, count });
    this.emit('added', sku);
  }

  *[Symbol.iterator]() {
    yield* this.#items.values();
  }

  onClose = () => {
    this.#items.clear();
  };

  #secret() { return 42; }
}

export const total = (items) => items.reduce((sum, item) => sum + item.count, 0);

export const fetchCart = async (id) => {
  const response = await fetch(`/carts/${id}`);
  return response.json();
};

const debounced = debounce(function search(term) {
  return term.trim();
}, 100);

function* ids(start) {
  while (true) yield start++;
}

exports.createServer = function (port) {
  return http.createServer().listen(port);
};

module.exports.close = (server) => server.close();

CartStore.prototype.reset = function reset() {
  this.options = {};
};

const routes = {
  list: async (request) => request.json(),
  show(request) {
    return request.params;
  },
};

const Legacy = class {
  run() {}
};

export default function () {
  return new CartStore();
}
