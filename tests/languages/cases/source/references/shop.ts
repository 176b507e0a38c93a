import Shop, { Cart as Basket, type Price, default as Again } from "./shop";
import * as money from '@store/money/sub';
import type { Currency } from "../types";
import "./side-effect";
import equal = require("equal");
import Alias = money.rates.Daily;
export { add as plus, remove } from "./cart";
export * from "./prices";
export * as tax from "./tax";
export { local, other as renamed };
export type { Country } from "./countries";
const { load } = await import("./loader");
import("./lazy").then((lazy) => lazy.run());

export default class Store<T extends Entity = Item> extends money.Base<Price> implements Sellable, Lists<Row> {
  private readonly client: Client = new Client();
  static count?: number;
  #secret = compute(1);

  constructor(private http: Http, public options?: Options<Key>, ...rest: Extra[]) {
    super(http);
    this.session = http.open(rest);
    this.#secret.hide();
  }

  get rate(): Currency {
    return this.client?.fetch<T>(load!.path).then((reply: Reply) => reply.value);
  }

  @Traced({ depth: 1 })
  method?<U>(this: Store, { name, price: cost = zero, ...others }: Parts, [first, second]: Pair = []): name is U {
    for (const [key, value] of Object.entries(others)) value.check(cost, key);
    for (let index = 0; index < first; index++) second.add(index);
    try { name.call() } catch (error) { report(error.message) }
  }

  abstract pay(amount: Price): Promise<Receipt>;
}

export const handler = async <T,>(request) => {
  const self = this;
  const reply = request as Reply, size = <Size>request;
  label: while (true) { continue label }
  let twice: typeof handler;
  type Keys = keyof Map2 | T;
  const inner = (value) => value;
  return inner(twice) satisfies Keys;
};

interface Lists<Row> extends Iterable2<Row>, money.Many {
  row: Row;
  at(index: Index): Row;
  [key: string]: Value;
  new (from: Source): Lists<Row>;
}

type Both<A> = { [Name in keyof A]: A[Name] } & Mixed | (new (x: Made) => Made);
type Short = Both<Item>;
enum Size { Small = 1, Large = limit }
namespace Inner.Deep { export const width = 1; export function measure() { return width } }
declare module "other" { export function typed(x: Given): Result; }
export let limit: Limit = first(), second2;
const obj = { limit, key: handler, [computed]: 1, meth() { return `text ${limit.size}` } };
new (obj.Type)(); obj.list["x"](); import.meta.env; tag`x`;
export = obj;
