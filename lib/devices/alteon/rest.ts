import { sleep } from '../../control/clock.ts';
import {
  callHttps,
  type HttpsAnswer,
  type HttpsCall,
  type HttpsConnections,
  HttpsError,
  openHttps,
} from '../../http/https-call.ts';
import { toPrintableLine } from '../../text/printable.ts';
import { DeviceError } from '../device-error.ts';
import { type DriverContext } from '../driver.ts';
import { type AlteonAddress } from './settings.ts';

/** A unit at work answers within milliseconds; one that applies much is busy for seconds. */
const limitMs = 20_000;

/** The longest table of the largest unit, with room. */
const maxBytes = 64 * 1024 * 1024;

/** A unit answers with 401 or 406 now and then, and with the same question's answer a moment later. Source: goalteon, client.go. */
const passing: ReadonlySet<number> = new Set([401, 406]);
const maxTries = 5;
const retryMs = 350;

/** What a unit prints is quoted as far as it says what is wrong. */
const maxQuoted = 300;

/** An object of JSON. */
export type JsonObject = Readonly<Record<string, unknown>>;

/** Questions to one unit. All methods reject with a DeviceError that names the unit, with what `beforeCall` throws, or when the signal ends. */
export class AlteonRest {
  readonly unit: string;
  readonly #connections: HttpsConnections;
  readonly #context: DriverContext;

  constructor(address: AlteonAddress, context: DriverContext) {
    this.unit = address.unit;
    this.#connections = openHttps(address.server);
    this.#context = context;
  }

  /** What it has at a path, as JSON. */
  async get(path: string, signal: AbortSignal): Promise<JsonObject> {
    const answer = this.#parse(path, await this.#ask('GET', path, null, signal));
    if (answer === null) throw new DeviceError('nonsense', `${this.unit} answers GET ${path} without JSON`);
    return answer;
  }

  /** What it has at a path, as text. */
  async getText(path: string, signal: AbortSignal): Promise<string> {
    const text = await this.#ask('GET', path, null, signal);
    this.#parse(path, text.startsWith('{') ? text : '');
    return text;
  }

  /** Changes something. An answer that says nothing is a good one. */
  async send(
    method: 'POST' | 'PUT' | 'DELETE',
    path: string,
    body: JsonObject | null,
    signal: AbortSignal,
  ): Promise<void> {
    const text = await this.#ask(method, path, body === null ? null : JSON.stringify(body), signal);
    this.#parse(path, text);
  }

  async #ask(
    method: HttpsCall['method'],
    path: string,
    body: string | null,
    signal: AbortSignal,
  ): Promise<string> {
    const { clock, beforeCall } = this.#context;
    const call = { connections: this.#connections, method, path, body, limitMs, maxBytes, clock, signal };
    for (let tries = 1; ; tries += 1) {
      await beforeCall(`${method} ${path} at ${this.unit}`);
      const { status, text } = await this.#call(call);
      if (status >= 200 && status < 300) return text;
      if (!passing.has(status) || tries === maxTries) throw this.#refuse(method, path, { status, text });
      await sleep(clock, retryMs);
    }
  }

  async #call(call: HttpsCall): Promise<HttpsAnswer> {
    try {
      return await callHttps(call);
    } catch (error) {
      if (!(error instanceof HttpsError)) throw error;
      const kind = error.reason === 'too-long' ? 'nonsense' : 'unreachable';
      throw new DeviceError(kind, `${this.unit} does not answer: ${error.message}`, { cause: error });
    }
  }

  #refuse(method: string, path: string, { status, text }: HttpsAnswer): DeviceError {
    if (status === 401) return new DeviceError('unauthorized', `${this.unit} does not take the credentials`);
    return new DeviceError(
      'refused',
      `${this.unit} answers ${method} ${path} with ${status}${this.#explain(text)}`,
    );
  }

  /** A unit says that it cannot do something with a good status, too. */
  #parse(path: string, text: string): JsonObject | null {
    const answer = parseObject(text);
    if (text.trim() !== '' && answer === null) {
      throw new DeviceError('nonsense', `${this.unit} answers ${path} with what is not JSON: ${quote(text)}`);
    }
    const status = answer?.['status'];
    if (status !== 'err' && status !== 'error') return answer;
    throw new DeviceError('refused', `${this.unit} refuses ${path}${this.#explain(text)}`);
  }

  #explain(text: string): string {
    const { message, testErr } = parseObject(text) ?? {};
    const words = [message, testErr].filter((word) => typeof word === 'string' && word !== '');
    return words.length === 0 ? '' : `: ${quote(words.join(' '))}`;
  }
}

/** What a unit prints as one line for people, with an end. */
export function quote(text: string): string {
  const line = toPrintableLine(text);
  return line.length > maxQuoted ? `${line.slice(0, maxQuoted)}…` : line;
}

/** A unit prints line feeds and tabs in strings as they are, which is no JSON. Source: goalteon, common.go. */
function parseObject(text: string): JsonObject | null {
  try {
    const value: unknown = JSON.parse(text.replaceAll(/[\r\n\t]/g, ' '));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as JsonObject)
      : null;
  } catch {
    return null;
  }
}
