import { type VipnatError, errorCodes } from '../../../../lib/errors.ts';
import { type Endpoint, formatEndpoint, parseEndpoint, parseAddress } from '../../../../lib/net.ts';

/** Throws when something is not so: faster than `expect`, which the million of cases would be felt with. */
export function insist(isSo: boolean, what: string): void {
  if (!isSo) throw new Error(what);
}

/** That an error has a code of the catalogue, and its message no control characters. */
export function insistOnError(error: VipnatError): void {
  insist(errorCodes.includes(error.code), `no code: ${error.code}`);
  insist(!hasControl(error.message.replaceAll('\n', ' ')), `control: ${JSON.stringify(error.message)}`);
}

/** What moves a terminal's cursor, changes its colours or the order of what is read: never in what is printed. */
const control = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

/** Whether a line has any of them. */
export function hasControl(line: string): boolean {
  return control.test(line);
}

/** That a text of lines for a person, or for a tool, has none. A tab begins lines of nft's. */
export function insistOnPrintable(text: string): void {
  const bad = text.split('\n').find((line) => hasControl(line.replaceAll('\t', ' ')));
  insist(bad === undefined, `what is printed has control characters: ${JSON.stringify(bad)}`);
}

/** That an endpoint is what formatEndpoint's and parseEndpoint's contracts say, and its address is in the input. */
export function insistOnEndpoint(endpoint: Endpoint, isInInput: (address: string) => boolean): void {
  const text = formatEndpoint(endpoint);
  const again = parseEndpoint(text);
  insist(again !== null && formatEndpoint(again) === text, `no endpoint: ${JSON.stringify(endpoint)}`);
  insist(again?.family === endpoint.family, `of another family: ${JSON.stringify(endpoint)}`);
  insist(isInInput(endpoint.address), `the input does not hold ${text}`);
}

/** The addresses that stand in a text, in canonical form, whatever is around them. Not by what is tested. */
export function listAddresses(text: string): ReadonlySet<string> {
  const words = text.match(/[\da-fA-F.:]+/g) ?? [];
  const found = words.flatMap((word) => {
    const trimmed = word.replace(/^(?=:[^:])|(?<=[^:]):\d*$|:$/g, '');
    return [word, trimmed, trimmed.replace(/:\d+$/, ''), word.replace(/^:/, ''), word.replace(/[.:]+$/, '')];
  });
  return new Set(found.flatMap((word) => parseAddress(word)?.text ?? []));
}

/** A check that is lazy: most inputs hold no endpoint. */
export function isIn(text: string): (address: string) => boolean {
  let addresses: ReadonlySet<string> | null = null;
  return (address) => {
    addresses ??= listAddresses(text);
    return addresses.has(address);
  };
}
