import { Injectable, Input } from './core';

export interface Repository<T extends { id: string }> {
  readonly name: string;
  find(id: string): Promise<T | undefined>;
  save(item: T): void;
}

export type Result<T> =
  | { ok: true; value: T }
  | { ok: false; error: Error };

export enum Level {
  Low = 1,
  High,
}

export const enum Flag { On }

@Injectable({ providedIn: 'root' })
export class ApiClient<T> implements Repository<T> {
  readonly name = 'api';
  private cache = new Map<string, T>();

  constructor(private readonly base: string) {}

  @Input() set token(value: string) {
    this.cache.clear();
  }

  async find(id: string): Promise<T | undefined> {
    return this.cache.get(id);
  }

  save = (item: T): void => {
    this.cache.set('x', item);
  };

  protected abstract describe?(): string;
}

export abstract class Base {
  abstract run(input: string): Promise<void>;
}

export namespace Units {
  export const meter = 1;
  export function toFeet(meters: number): number {
    return meters * 3.28;
  }
}

export function pick<T, K extends keyof T>(object: T, ...keys: K[]): Pick<T, K>;
export function pick(object: any, ...keys: any[]): any {
  return keys;
}

declare module 'external' {
  export function helper(name: string): void;
}

export const isLow = (level: Level): level is Level.Low => level === Level.Low;

export default class extends Base {
  async run(input: string) {}
}
